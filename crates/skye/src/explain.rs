//! `skye explain`: the meaning of a limiter or a term, the evidence for it, what to try, and what was not tested.

use model::finding::Finding;
use model::spec::FioKey;
use model::{Limiter, nearest};
use report::text::{self, Style};
use wording::limiter_help::{KINDS, LIMITER_HELP, LimiterHelp, confidence, experiments, occupancy};
use wording::{FINDING_HELP, glossary};

use crate::CommandResult;
use crate::exit::{self, Failure};
use crate::terminal;

/// Prints the page of a limiter, or the list of all of them if no word is given.
pub fn explain(words: &str) -> CommandResult {
    let style = terminal::style();
    let output =
        if words.trim().is_empty() { list(&style) } else { page(words, &style).map_err(Failure::Refused)? };
    terminal::print_line(&output)?;
    Ok(exit::DONE)
}

fn list(style: &Style) -> String {
    let meanings: Vec<_> =
        LIMITER_HELP.iter().map(|about| (about.limiter.code(), about.in_short())).collect();
    let kinds: Vec<_> = KINDS.iter().map(|(name, _)| *name).collect();
    let after = format!("{} Kinds of evidence: {}.", confidence(&judge::thresholds()), kinds.join(", "));
    text::index(&meanings, &after, style)
}

/// Returns the page on a limiter, a word of the glossary, a remark, or a key of fio.
///
/// # Errors
/// Nothing has that name.
fn page(words: &str, style: &Style) -> Result<String, String> {
    if let Some((word, meaning)) = glossary::meaning(words) {
        return Ok(text::page(word, "on the screen", &[("Meaning", meaning.to_owned())], style));
    }
    let code = words.trim().to_lowercase().replace([' ', '-'], "_");
    let remark = FINDING_HELP.iter().find(|about| about.code == code).map(|about| {
        let sections = [("Meaning", about.meaning), ("When", about.when), ("Mark", about.mark)];
        sections.map(|(heading, text)| (heading, text.replace('`', "")))
    });
    let (about, remark) = match (text::limiter_from_name(words).and_then(LimiterHelp::from_limiter), remark) {
        (Some(about), remark) => (about, remark),
        (None, Some(remark)) => return Ok(text::page(&code, "a remark", &remark, style)),
        (None, None) => {
            let name = words.trim();
            if let Some(key) = FioKey::find(name) {
                let here = [("Here", key.here.replace('`', ""))];
                return Ok(text::page(key.names[0], "a key of fio", &here, style));
            }
            let meaning = wording::column_meaning(name).ok_or_else(|| unknown(words))?;
            return Ok(text::page(name, "a column of CSV", &[("Meaning", meaning.to_owned())], style));
        }
    };
    let thresholds = judge::thresholds();
    let mut sections = about.sections(&thresholds).to_vec();
    let under_remark = |[(_, meaning), when, mark]: [_; 3]| [("As a remark", meaning), when, mark];
    sections.extend(remark.into_iter().flat_map(under_remark));
    sections.extend(rig::cases::list_by_limiter(about.limiter).map(|cases| ("Shown by", cases)));
    sections.push(("Confidence", confidence(&thresholds)));
    // Only some of the texts use these words.
    let evidence = about.evidence(&thresholds).to_lowercase();
    if evidence.contains("experiments show") {
        sections.push(("Experiments", experiments(&thresholds)));
    }
    if evidence.contains("occupancy") {
        sections.push(("Occupancy", occupancy(&thresholds)));
    }
    let limiter = about.limiter;
    Ok(text::page(limiter.title(), limiter.code(), &sections, style))
}

fn unknown(words: &str) -> String {
    let limiters = Limiter::ALL.iter().flat_map(|limiter| [limiter.code(), limiter.title()]);
    let names = limiters
        .chain(Finding::CODES.iter().copied())
        .chain(glossary::GLOSSARY.iter().map(|(word, _)| *word))
        .chain(FioKey::all_names());
    let meant = nearest(&words.to_lowercase(), names);
    let hint = match meant {
        Some(name) => format!("did you mean `{name}`?"),
        None => "skye explain lists all".to_owned(),
    };
    format!(
        "cannot explain `{words}`: it is neither a limiter, nor a term on the screen, nor a key of fio; {hint}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const STYLE: Style = Style { has_unicode: true, width: 100 };

    #[test]
    fn limiter_page_and_list_snapshot() {
        let output = format!("{}\n\n{}", page("device latency", &STYLE).unwrap(), list(&STYLE));
        insta::assert_snapshot!(anstream::adapter::strip_str(&output).to_string());
    }

    #[test]
    fn every_limiter_has_its_page_on_every_terminal() {
        for limiter in Limiter::ALL {
            for width in [60, 80, 140] {
                let style = Style { has_unicode: false, width };
                let output = anstream::adapter::strip_str(&page(limiter.code(), &style).unwrap()).to_string();
                assert!(output.is_ascii() && output.lines().all(|line| line.len() <= width), "{output}");
            }
        }
    }

    #[test]
    fn finding_page_has_meaning_rule_and_marks() {
        let plain_page = |words| anstream::adapter::strip_str(&page(words, &STYLE).unwrap()).to_string();
        let foreign = plain_page("foreign_io");
        for text in
            ["Meaning\n    Other programs used the device.", "more than 5 %", "? if 10 % or more, else ·"]
        {
            assert!(foreign.contains(text), "{foreign}");
        }
        assert!(plain_page("metadata_cache").contains("As a remark\n    The metadata came from memory."));
        assert!(plain_page("ended_early").contains("The number covers a part of the test."));
    }

    #[test]
    fn unknown_term_suggests_nearest() {
        let plain_page = |words| page(words, &STYLE).unwrap_err();
        assert_eq!(
            plain_page("page_cahe"),
            "cannot explain `page_cahe`: it is neither a limiter, nor a term on the screen, nor a key of fio; did you mean `page_cache`?"
        );
        assert_eq!(
            plain_page("zzz"),
            "cannot explain `zzz`: it is neither a limiter, nor a term on the screen, nor a key of fio; skye explain lists all"
        );
    }
}
