//! Puts a server under strain and says what that cost. Called by scripts/check-load and scripts/check-hostile.
//!
//! ```text
//! strain held SECONDS CONNECTIONS         connections that wait for a slow engine, half of them leaving
//! strain tokens COUNT                     one stream, as fast as it goes
//! strain continued HISTORY NEW ROUNDS     a conversation of the built-in model that goes on
//! strain hostile REQUESTS [SEED]          requests that nobody should send
//! ```
//!
//! The server, a scripted engine and the clients are one process, so that its memory and descriptors are
//! all there is to watch. A promise that is not kept ends the program with what was seen; promises about time
//! only with `--timed`, for they depend on what else the machine does.
#![allow(clippy::unwrap_used, clippy::print_stdout)]
#![forbid(unsafe_code)]

mod chance;
mod continued;
mod engine;
mod held;
mod hostile;
mod machine;
mod response;
mod tokens;

fn main() {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    let timed = words.iter().any(|word| word == "--timed");
    words.retain(|word| word != "--timed");
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["held", seconds, connections] => {
            held::run(number(seconds), number(connections) as usize, timed);
        }
        ["tokens", count] => tokens::run(number(count) as usize, timed),
        ["continued", history, new, rounds] => {
            let [history, new, rounds] = [history, new, rounds].map(|word| number(word) as usize);
            continued::run(history, new, rounds, timed);
        }
        ["hostile", requests] => hostile::run(number(requests), 0),
        ["hostile", requests, seed] => hostile::run(number(requests), number(seed)),
        _ => panic!("say held, tokens, continued or hostile, and how much"),
    }
}

fn number(word: &str) -> u64 {
    word.parse().unwrap_or_else(|_| panic!("'{word}' is not a number"))
}
