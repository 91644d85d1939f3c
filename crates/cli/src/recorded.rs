//! Routes that `run --route-trace` recorded.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;

use serde::Deserialize;

use crate::failure::Failure;

const FORMAT: &str = "deltafin routes";
const VERSION: u64 = 1;

/// The first line.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Head {
    format: String,
    version: u64,
    /// Layers of the model, dense ones included.
    pub(crate) layers: usize,
    /// Routed experts of a layer.
    pub(crate) experts: usize,
    /// Experts chosen per token.
    pub(crate) top_k: usize,
}

/// Each of the others.
#[derive(Debug, Deserialize)]
struct Line {
    layer: usize,
    experts: Vec<u32>,
}

/// Reads a file: what it begins with, then to `take` the layer and the experts of each of its lines.
///
/// # Errors
/// Where it is no such file; what `take` was told by then is of no use.
pub(crate) fn read(path: &Path, mut take: impl FnMut(usize, &[u32])) -> Result<Head, Failure> {
    let about = |what: &dyn std::fmt::Display| {
        Failure::new(format!("cannot read routes from {}: {what}", path.display()))
    };
    let mut lines = BufReader::new(File::open(path).map_err(|e| about(&e))?).lines();
    let head = lines.next().transpose().map_err(|e| about(&e))?.unwrap_or_default();
    let head = parse_head(&head).map_err(|why| about(&why))?;
    for (number, line) in (2..).zip(lines) {
        let line = line.map_err(|e| about(&e))?;
        let Line { layer, experts } =
            parse_line(&head, &line).map_err(|why| about(&format!("line {number}: {why}")))?;
        take(layer, &experts);
    }
    Ok(head)
}

fn parse_head(line: &str) -> Result<Head, String> {
    let head: Option<Head> = serde_json::from_str(line).ok();
    match head {
        Some(head) if head.format == FORMAT && head.version == VERSION => Ok(head),
        Some(Head { format, version, .. }) if format == FORMAT => {
            Err(format!("version {version} is not known, only {VERSION}"))
        }
        _ => Err("it does not begin as a file of 'run --route-trace' does".to_owned()),
    }
}

fn parse_line(head: &Head, line: &str) -> Result<Line, String> {
    let line: Line = serde_json::from_str(line).map_err(|e| e.to_string())?;
    let Line { layer, experts } = &line;
    if *layer >= head.layers {
        return Err(format!("layer {layer} of {}", head.layers));
    }
    if experts.len() != head.top_k {
        return Err(format!("{} experts where {} are chosen", experts.len(), head.top_k));
    }
    match experts.iter().find(|expert| **expert as usize >= head.experts) {
        Some(expert) => Err(format!("expert {expert} of {}", head.experts)),
        None => Ok(line),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str =
        r#"{"format":"deltafin routes","version":1,"layers":4,"experts":8,"top_k":2}"#;

    type Row = (usize, Vec<u32>);

    fn routes(text: &str) -> Result<(Head, Vec<Row>), String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let mut lines = Vec::new();
        let head = read(file.path(), |layer, experts| lines.push((layer, experts.to_vec())));
        head.map(|head| (head, lines)).map_err(|failure| failure.line().unwrap_or_default())
    }

    #[test]
    fn lines_become_routes() {
        let lines = [
            HEAD,
            r#"{"position":0,"layer":1,"experts":[7,0]}"#,
            r#"{"position":1,"layer":1,"experts":[7,3]}"#,
        ];
        let (head, routes) = routes(&lines.join("\n")).unwrap();
        assert_eq!((head.layers, head.experts, head.top_k), (4, 8, 2));
        assert_eq!(routes, [(1, vec![7, 0]), (1, vec![7, 3])]);
    }

    #[test]
    fn what_is_no_such_file_is_refused_with_its_line() {
        let line = |line: &str| routes(&format!("{HEAD}\n{line}\n")).unwrap_err();
        assert!(routes("").unwrap_err().contains("does not begin"));
        assert!(routes("{}").unwrap_err().contains("does not begin"));
        let newer = HEAD.replace("\"version\":1", "\"version\":2");
        assert!(routes(&newer).unwrap_err().contains("version 2"));
        assert!(line("{").contains("line 2"));
        assert!(line(r#"{"position":0,"layer":4,"experts":[1,2]}"#).contains("layer 4 of 4"));
        assert!(line(r#"{"position":0,"layer":3,"experts":[1]}"#).contains("1 experts"));
        assert!(line(r#"{"position":0,"layer":3,"experts":[1,8]}"#).contains("expert 8 of 8"));
    }
}
