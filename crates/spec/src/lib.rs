//! What Kimi K3 is: layer kinds, shapes, tensor names and byte sizes.
#![forbid(unsafe_code)]
