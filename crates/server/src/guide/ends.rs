//! Whether all that a grammar begins can be brought to an end.
//!
//! Promise: in a grammar that passes, no reply comes to a place from which its end is out of reach. Schemas can ask for
//! what is not: an object that requires itself, a reference to itself, limits that exclude each other. They compile,
//! and a reply that is led there goes on to its limit, or has no next token.

use std::collections::{HashMap, HashSet};

use llguidance::api::ParserLimits;
use llguidance::earley::{CGrammar, CSymIdx};

/// One way to write a symbol: its parts in order. Never empty.
struct Rule<'a> {
    whole: CSymIdx,
    parts: &'a [CSymIdx],
}

/// Refuses a grammar that leads where no end is, in words.
pub(super) fn check(grammar: &CGrammar) -> Result<(), String> {
    let rules = reachable(grammar);
    let all = |_: CSymIdx| true;
    if leads_astray(grammar, &rules, all) {
        return Err("no value of it has an end: it requires itself".to_owned());
    }
    let can_be = possible(grammar)?;
    match leads_astray(grammar, &rules, |terminal| can_be.contains(&terminal)) {
        true => Err("no value keeps to all that it says".to_owned()),
        false => Ok(()),
    }
}

/// All rules that the start needs.
fn reachable(grammar: &CGrammar) -> Vec<Rule<'_>> {
    let mut seen = HashSet::from([grammar.start()]);
    let mut waiting = vec![grammar.start()];
    let mut rules = Vec::new();
    while let Some(whole) = waiting.pop() {
        for rule in grammar.rules_of(whole) {
            let (parts, ..) = grammar.rule_rhs(*rule);
            waiting.extend(parts.iter().filter(|part| seen.insert(**part)));
            rules.push(Rule { whole, parts });
        }
    }
    rules
}

/// Terminals that match some text.
fn possible(grammar: &CGrammar) -> Result<HashSet<CSymIdx>, String> {
    let lexer = grammar.lexer_spec();
    let mut states = lexer
        .to_regex_vec(&mut ParserLimits::default())
        .map_err(|error| super::vocabulary::words(&error))?;
    let start = states.initial_state(&lexer.all_lexemes());
    let matching = &states.state_desc(start).possible;
    let rules = reachable(grammar);
    let terminals = rules.iter().flat_map(|rule| rule.parts).filter(|part| {
        grammar.sym_data(**part).lexeme.is_some_and(|lexeme| matching.contains(lexeme))
    });
    Ok(terminals.copied().collect())
}

/// Whether something can be begun that has no end, where these terminals can be written.
fn leads_astray(grammar: &CGrammar, rules: &[Rule<'_>], can_be: impl Fn(CSymIdx) -> bool) -> bool {
    let ending = ending(grammar, rules, can_be);
    let is_trap = |rule: &Rule<'_>| {
        let stuck = rule.parts.iter().position(|part| !ending.contains(part));
        // Before it nothing may have been said yet: then whoever comes there had no way in.
        stuck.is_some_and(|at| rule.parts[..at].iter().any(|part| says_something(grammar, *part)))
    };
    !ending.contains(&grammar.start()) || rules.iter().any(is_trap)
}

fn says_something(grammar: &CGrammar, symbol: CSymIdx) -> bool {
    let symbol = grammar.sym_data(symbol);
    symbol.is_terminal || !symbol.rules.is_empty()
}

/// Symbols that some text can be written for.
fn ending(
    grammar: &CGrammar,
    rules: &[Rule<'_>],
    can_be: impl Fn(CSymIdx) -> bool,
) -> HashSet<CSymIdx> {
    let mut users: HashMap<CSymIdx, Vec<usize>> = HashMap::new();
    for (at, rule) in rules.iter().enumerate() {
        rule.parts.iter().for_each(|part| users.entry(*part).or_default().push(at));
    }
    let ends_at_once = |symbol: &CSymIdx| {
        let known = grammar.sym_data(*symbol);
        if known.is_terminal { can_be(*symbol) } else { known.is_nullable }
    };
    let symbols = users.keys().copied().chain([grammar.start()]);
    let mut ending: HashSet<CSymIdx> = symbols.filter(ends_at_once).collect();
    let mut waiting: Vec<CSymIdx> = ending.iter().copied().collect();
    // Parts of each rule whose end is not known yet.
    let mut open: Vec<usize> = rules.iter().map(|rule| rule.parts.len()).collect();
    while let Some(symbol) = waiting.pop() {
        for at in users.get(&symbol).into_iter().flatten() {
            open[*at] -= 1;
            if open[*at] == 0 && ending.insert(rules[*at].whole) {
                waiting.push(rules[*at].whole);
            }
        }
    }
    ending
}
