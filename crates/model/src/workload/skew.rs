//! Skews: orders in which some blocks come more often than others.

use super::keys::Form;

/// Exponent of Zipf's law, in thousandths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Theta {
    thousandths: u16,
}

impl Theta {
    /// Largest exponent, in thousandths: beyond it, nearly all operations go to one block.
    const MAX: u16 = 10_000;

    /// Returns the exponent as a number.
    pub fn value(self) -> f64 {
        f64::from(self.thousandths) / 1000.0
    }
}

/// Form of `zipf`: a number with up to three decimals.
pub(crate) struct Thousandths;

impl Form<Theta> for Thousandths {
    fn parse(&self, key: &str, _form: &str, value: &str) -> Result<Theta, String> {
        let thousandths = thousandths(value).ok_or_else(|| {
            format!("`{key}={value}`: use a number with up to three decimals, for example {key}=0.99")
        })?;
        if !(1..=Theta::MAX).contains(&thousandths) {
            return Err(format!(
                "`{key}={value}`: the range is 0.001 to 10; drop {key} for a uniform distribution"
            ));
        }
        Ok(Theta { thousandths })
    }

    fn print(&self, value: &Theta) -> String {
        value.value().to_string()
    }
}

/// Parses a number with up to three decimals; `None` if it is none, or far too large.
fn thousandths(value: &str) -> Option<u16> {
    let (whole, decimals) = value.split_once('.').unwrap_or((value, "0"));
    let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(decimals) || decimals.len() > 3 {
        return None;
    }
    let number: u32 = whole.parse().ok()?;
    let decimals: u32 = format!("{decimals:0<3}").parse().ok()?;
    // Anything larger than the largest is refused alike.
    let capped = number.min(u32::from(Theta::MAX)) * 1000 + decimals;
    Some(u16::try_from(capped).unwrap_or(u16::MAX))
}

/// Share of the operations that goes to a smaller share of the blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HotPart {
    /// Percent of the operations.
    pub ops_percent: u8,
    /// Percent of the blocks.
    pub blocks_percent: u8,
}

/// Form of `hot`: two percentages with a slash between them.
pub(crate) struct OpsToBlocks;

impl Form<HotPart> for OpsToBlocks {
    fn parse(&self, key: &str, _form: &str, value: &str) -> Result<HotPart, String> {
        let percent = |text: &str| {
            let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse::<u8>().ok().filter(|percent| is_number && (1..=100).contains(percent))
        };
        let both = value.split_once('/').and_then(|(ops, blocks)| percent(ops).zip(percent(blocks)));
        let (ops_percent, blocks_percent) = both.ok_or_else(|| {
            format!("`{key}={value}`: use {key}=A/B with percentages from 1 to 100, for example {key}=90/10")
        })?;
        if ops_percent <= blocks_percent {
            return Err(format!(
                "`{key}={value}`: {ops_percent} % of the operations to {blocks_percent} % of the blocks is not a hot \
                 set; use a larger first number"
            ));
        }
        Ok(HotPart { ops_percent, blocks_percent })
    }

    fn print(&self, value: &HotPart) -> String {
        format!("{}/{}", value.ops_percent, value.blocks_percent)
    }
}
