//! `/proc/cpuinfo`: model of the first processor, and the sign of a hypervisor.

/// The first processor.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cpuinfo {
    /// Model name, as in `/proc/cpuinfo`.
    pub model: Option<String>,
    /// True if the processor reports a hypervisor; x86 only.
    pub has_hypervisor: bool,
}

/// Reads the first processor. Other architectures have the model under other keys, or not at all.
pub fn parse(text: &str) -> Cpuinfo {
    let value = |key: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once(':'));
        lines.find(|(name, _)| name.trim_end() == key).map(|(_, value)| value.trim())
    };
    let model = ["model name", "Model", "cpu model", "cpu", "uarch"].into_iter().find_map(value);
    Cpuinfo {
        model: model
            .filter(|model| !model.is_empty())
            .map(|model| model.split_whitespace().collect::<Vec<_>>().join(" ")),
        has_hypervisor: value("flags")
            .is_some_and(|flags| flags.split_whitespace().any(|flag| flag == "hypervisor")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Cpuinfo, parse};

    #[test]
    fn cpuinfo_of_x86_and_arm_is_parsed() {
        let x86 =
            "processor\t: 0\nmodel\t\t: 2\nmodel name\t: AMD EPYC  7313\nflags\t\t: fpu vme hypervisor\n";
        assert_eq!(parse(x86), Cpuinfo { model: Some("AMD EPYC 7313".into()), has_hypervisor: true });
        assert_eq!(parse("processor\t: 0\nBogoMIPS\t: 243.75\n"), Cpuinfo::default());
    }

    proptest! {
        #[test]
        fn any_text_parses_without_panic(text in "(\\PC|\n|\t){0,200}") {
            parse(&text);
        }
    }
}
