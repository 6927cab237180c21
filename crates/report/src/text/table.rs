//! The tables: one line per phase, with the same columns for lines printed one by one or at once.

use anstyle::Style as Ansi;
use model::plan::Plan;
use model::run::{Latency, Mark, PhaseRecord, Status, Trust};
use model::{FileVerb, Limiter, Percentile, Percentiles, Run};

use super::cold;
use super::columns::{
    Columns, INDENT, LIMITER_WIDTH_MIN, Line, NAME_WIDTH, PATTERN_WIDTH, SUBJECT_WIDTH_MAX,
    SUBJECT_WIDTH_MIN, Selection, fit,
};
use super::limiter;
use super::notes::{is_knee, mark};
use super::style::{BOLD, DIM, Style, YELLOW, display_width};
use super::wrap::{no_break, wrap};
use crate::numbers::{MISSING, amount};
use crate::operations::{Operation, has_operations};
use crate::{percentiles, printable};

/// Marks the row at which a sweep has its knee, unless it has another mark. The knee's sentence begins with it, too.
pub(crate) const KNEE: &str = "←";

/// Table that a phase belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Reads and writes inside files: MB/s and IOPS.
    Data,
    /// Operations on files as such: operations per second.
    Files,
}

impl Kind {
    /// Returns the table of a phase.
    pub fn from_phase(phase: &PhaseRecord) -> Self {
        if phase.workload.verb.parse::<FileVerb>().is_ok() { Self::Files } else { Self::Data }
    }
}

/// Widths of name and label in either table, and presence of the limiter's column. They are known when the heading is
/// printed, before there is any row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Widths {
    data: usize,
    files: usize,
    has_limiters: bool,
    /// True if there are mixes or replays, whose operations have separate lines.
    has_operations: bool,
    /// True if a test on files always moves bytes, as a replay does.
    files_move_bytes: bool,
    /// Percentiles that the user chose. If they have no room as columns, they follow below the rows.
    chosen: Option<Vec<Percentile>>,
}

impl Widths {
    /// The widths for every row that the plan can give.
    pub fn from_plan(plan: &Plan) -> Self {
        let subjects = plan.phases.iter().map(|phase| Subject {
            kind: if phase.workload.files().is_some() { Kind::Files } else { Kind::Data },
            name: phase.workload.name().to_owned(),
            label: plan.label_of(phase),
            repetition: plan.repetitions,
        });
        // Tests that reach no storage have no limit of storage.
        let has_limiters = plan.phases.iter().any(|phase| phase.engine.needs_files());
        let names = || plan.phases.iter().map(|phase| phase.workload.name());
        Self { has_limiters, ..Self::from_subjects(subjects) }.with_names(names)
    }

    /// The same table with percentiles that the user chose.
    #[must_use]
    pub fn with_percentiles(self, chosen: Option<&Percentiles>) -> Self {
        Self { chosen: chosen.map(|chosen| chosen.as_slice().to_vec()), ..self }
    }

    /// Notes what the names of all tests ask of the columns.
    fn with_names<'a, N: Iterator<Item = &'a str>>(self, names: impl Fn() -> N) -> Self {
        let has_operations = names().any(has_operations);
        Self { has_operations, files_move_bytes: names().any(|name| name == FileVerb::Replay.word()), ..self }
    }

    /// The widths of a run's tables: those of its plan, or more where the records need it.
    pub fn from_run(run: &Run) -> Self {
        let (plan, phases) = (Self::from_plan(&run.plan), Self::from_phases(&run.phases));
        let has_limiters = plan.has_limiters || phases.has_limiters;
        Self {
            data: plan.data.max(phases.data),
            files: plan.files.max(phases.files),
            has_limiters,
            has_operations: plan.has_operations || phases.has_operations,
            files_move_bytes: plan.files_move_bytes || phases.files_move_bytes,
            chosen: percentiles::chosen(run),
        }
    }

    fn from_phases(phases: &[PhaseRecord]) -> Self {
        let has_limiters = phases.iter().any(|phase| limiter::from_phase(phase).is_some());
        let subjects = phases.iter().map(|phase| Subject::from_phase(phase, printable));
        let names = || phases.iter().map(|phase| phase.name.as_str());
        Self { has_limiters, ..Self::from_subjects(subjects) }.with_names(names)
    }

    fn from_subjects(subjects: impl Iterator<Item = Subject>) -> Self {
        let subjects: Vec<_> = subjects.collect();
        let width = |kind: Kind| {
            let lengths = subjects.iter().filter(|subject| subject.kind == kind).map(|subject| {
                let lengths = subject.forms().map(|form| display_width(&form));
                (lengths[0], lengths.into_iter().min().unwrap_or_default())
            });
            let lengths: Vec<_> = lengths.collect();
            // As long as abbreviations will do, a terminal of 80 columns is enough.
            if lengths.iter().all(|(_, shortest)| *shortest <= SUBJECT_WIDTH_MIN) {
                return SUBJECT_WIDTH_MIN;
            }
            let widest = lengths.into_iter().map(|(whole, _)| whole).max().unwrap_or_default();
            widest.clamp(SUBJECT_WIDTH_MIN, SUBJECT_WIDTH_MAX)
        };
        Self {
            data: width(Kind::Data),
            files: width(Kind::Files),
            has_limiters: false,
            has_operations: false,
            files_move_bytes: false,
            chosen: None,
        }
    }

    fn width_of(&self, kind: Kind) -> usize {
        match kind {
            Kind::Data => self.data,
            Kind::Files => self.files,
        }
    }

    /// The columns of a table. Both have the same, so that one continues the other.
    fn columns(&self, kind: Kind, style: &Style) -> Columns {
        let widest = self.data.max(self.files);
        let wanted = self.chosen.as_deref().unwrap_or(&percentiles::ON_SCREEN);
        let limiter_width = if self.has_limiters { LIMITER_WIDTH_MIN } else { 0 };
        let selection = Selection::fitting(widest, wanted, limiter_width, style.width);
        Columns::new(self.width_of(kind), selection)
    }

    /// The percentiles that the user chose and that have no column.
    fn below(&self, columns: &Columns) -> Vec<Percentile> {
        let has_column = |chosen: &Percentile| columns.latencies.iter().any(|(known, _)| known == chosen);
        self.chosen.iter().flatten().copied().filter(|chosen| !has_column(chosen)).collect()
    }
}

/// The heading of a table.
pub fn head(kind: Kind, widths: &Widths, style: &Style) -> String {
    let columns = widths.columns(kind, style);
    let mut line = Line::default();
    let (title, ops) = match kind {
        Kind::Data => ("DATA", "IOPS"),
        Kind::Files => ("FILES", "ops/s"),
    };
    line.put_left(INDENT, title, Ansi::new());
    match kind {
        // The share of each operation of a mix or a load, below the bytes of the load.
        Kind::Files if widths.files_move_bytes => {
            line.put_right(columns.megabytes_end, "MB/s, time", Ansi::new());
        }
        Kind::Files if widths.has_operations => line.put_right(columns.megabytes_end, "time", Ansi::new()),
        Kind::Files => {}
        Kind::Data => line.put_right(columns.megabytes_end, "MB/s", Ansi::new()),
    }
    line.put_right(columns.ops_end, ops, Ansi::new());
    if let Some(end) = columns.interval_end {
        line.put_right(end, &style.finish("±".into()), Ansi::new());
    }
    for (percentile, end) in &columns.latencies {
        line.put_right(*end, &percentile.name(), Ansi::new());
    }
    if widths.has_limiters {
        line.put_left(columns.limiter_start, "limited by", Ansi::new());
    }
    line.finish()
}

/// Renders one phase as one line while the run goes on: its numbers, or why it has none, and its mark. The limiter is
/// known only after the experiments.
pub fn row(phase: &PhaseRecord, widths: &Widths, style: &Style) -> String {
    row_of(phase, &RowState::Running, widths, style)
}

/// Knowledge about a row: all of it is there only when the run is over.
enum RowState {
    Running,
    /// Everything; `is_knee` is true if a sweep has its knee at this row.
    All {
        is_knee: bool,
    },
}

fn row_of(phase: &PhaseRecord, known: &RowState, widths: &Widths, style: &Style) -> String {
    let width = widths.width_of(Kind::from_phase(phase));
    let columns = widths.columns(Kind::from_phase(phase), style);
    let mut line = Line::default();
    let mark = mark(phase);
    // Documents of older versions only have the mark.
    let distrusted = match &phase.judged.verdict {
        Some(verdict) => verdict.trust == Trust::Invalid,
        None => mark == Mark::Suspect,
    };
    let subject = Subject::from_phase(phase, |text| style.foreign(text)).within(width);
    line.put_left(INDENT, &subject, if distrusted { DIM } else { Ansi::new() });
    let missing = missing_reason(phase);
    let has_numbers = missing.is_none();
    match missing {
        Some(reason) => {
            let room = columns.mark_end - columns.subject_end - 4;
            line.put_left(columns.subject_end + 2, &fit(&style.finish(reason), room), Ansi::new())
        }
        None => numbers(&mut line, &columns, phase, distrusted),
    }
    match mark.sign() {
        "" if matches!(known, RowState::All { is_knee: true }) => {
            line.put_right(columns.mark_end, KNEE, Ansi::new())
        }
        "" => {}
        sign => line.put_right(columns.mark_end, sign, YELLOW),
    }
    if has_numbers && widths.has_limiters && matches!(known, RowState::All { .. }) {
        let room = style.width.saturating_sub(columns.limiter_start);
        if let Some((cell, colour)) = limiter::cell(phase, room.max(LIMITER_WIDTH_MIN)) {
            line.put_left(columns.limiter_start, &cell, if distrusted { DIM } else { colour });
        }
    }
    style.finish(line.finish())
}

/// Rate of a client that counts as different from the others, as a share of their median.
const CLIENT_APART: f64 = 0.2;

/// Renders the rates of the clients as a line below their row; `None` if they are close together.
pub fn clients(phase: &PhaseRecord, style: &Style) -> Option<String> {
    let totals = phase.figures.together.as_ref()?;
    let median = totals.median_ops_per_second?;
    let (slowest, fastest) = (totals.slowest_ops_per_second?, totals.fastest_ops_per_second?);
    let is_far = |rate: f64| (rate - median).abs() > CLIENT_APART * median;
    if !is_far(slowest) && !is_far(fastest) {
        return None;
    }
    let named = |rate: f64, name: &Option<String>| {
        format!("{} {}", name.as_deref().map(printable).unwrap_or_default(), amount(rate).unwrap_or_default())
    };
    let (slowest, fastest) = (named(slowest, &totals.slowest), named(fastest, &totals.fastest));
    let mut rendered = Line::default();
    rendered.put_left(
        INDENT + 2,
        &format!("clients: {slowest} to {fastest}, median {}", amount(median)?),
        DIM,
    );
    Some(style.finish(rendered.finish()))
}

/// Difference of the rates of the steady part and of the whole test, as a share, from which their latencies differ clearly.
const PARTS_APART: f64 = 0.02;

/// Returns true if a row is of the steady part of a test, and the whole test was clearly different.
fn is_apart_from_whole(phase: &PhaseRecord) -> bool {
    let rate = &phase.figures.rate;
    let parts = rate.steady_ops_per_second.zip(rate.overall_ops_per_second);
    parts.is_some_and(|(steady, whole)| (steady / whole - 1.0).abs() > PARTS_APART)
}

/// Renders the operations or the calls of a test as lines below its row.
fn operations(phase: &PhaseRecord, widths: &Widths, style: &Style) -> Vec<String> {
    let kind = Kind::from_phase(phase);
    let columns = widths.columns(kind, style);
    let below = widths.below(&columns);
    let is_apart = kind == Kind::Data && is_apart_from_whole(phase);
    let lines_of = |operation: Operation<'_>| {
        let mut line = Line::default();
        let part = if is_apart { ", whole test" } else { "" };
        line.put_left(INDENT + 2, &format!("{}{part}", operation.name()), DIM);
        match kind {
            Kind::Files => line.put_right(columns.megabytes_end, &operation.time(), DIM),
            Kind::Data => line.put_decimal(columns.megabytes_end, &operation.megabytes(), DIM),
        }
        line.put_decimal(columns.ops_end, &operation.rate(), DIM);
        put_latencies(&mut line, &columns, operation.step.latency_ns.as_ref(), DIM);
        if let Some(verdict) = operation.verdict.filter(|_| widths.has_limiters) {
            let room = style.width.saturating_sub(columns.limiter_start).max(LIMITER_WIDTH_MIN);
            line.put_left(columns.limiter_start, &limiter::operation_cell(verdict, room), DIM);
        }
        let latency = operation.step.latency_ns.as_ref();
        [vec![style.finish(line.finish())], latencies_below(latency, &below, INDENT + 4, style)].concat()
    };
    crate::operations::operations(phase).into_iter().flat_map(lines_of).collect()
}

fn put_latencies(line: &mut Line, columns: &Columns, latency: Option<&Latency>, ansi: Ansi) {
    let wanted: Vec<_> = columns.latencies.iter().map(|(percentile, _)| *percentile).collect();
    for ((_, end), cell) in columns.latencies.iter().zip(percentiles::cells(latency, &wanted)) {
        line.put_right(*end, &cell, ansi);
    }
}

/// Renders percentiles without a column as lines below their row.
fn latencies_below(
    latency: Option<&Latency>,
    below: &[Percentile],
    indent: usize,
    style: &Style,
) -> Vec<String> {
    if latency.is_none() || below.is_empty() {
        return Vec::new();
    }
    let named = below.iter().zip(percentiles::cells(latency, below));
    let parts: Vec<_> = named.map(|(wanted, cell)| no_break(&format!("{} {cell}", wanted.name()))).collect();
    let lines = wrap(&style.finish(parts.join(", ")), style.width.saturating_sub(indent).max(1));
    let line = |text: String| {
        let mut line = Line::default();
        line.put_left(indent, &text, DIM);
        line.finish()
    };
    lines.into_iter().map(line).collect()
}

/// Renders the percentiles of a row that have no column.
fn below(phase: &PhaseRecord, widths: &Widths, style: &Style) -> Vec<String> {
    let wanted = widths.below(&widths.columns(Kind::from_phase(phase), style));
    let latency = phase.figures.latency_ns.as_ref().filter(|_| missing_reason(phase).is_none());
    latencies_below(latency, &wanted, INDENT + 2, style)
}

/// Returns true if an empty line separates the rows of two phases, because a sweep begins or ends between them.
pub fn is_group_boundary(previous: &PhaseRecord, next: &PhaseRecord) -> bool {
    let is_swept = previous.group.is_some() || next.group.is_some();
    is_swept && (&previous.group, previous.repetition) != (&next.group, next.repetition)
}

fn numbers(line: &mut Line, columns: &Columns, phase: &PhaseRecord, distrusted: bool) {
    let kind = Kind::from_phase(phase);
    // The headline of sequential tests is bytes, that of all others is operations.
    let by_bytes = phase.workload.pattern == Some(model::workload::Access::Sequential);
    let painted = |headline: bool| match (distrusted, headline) {
        (true, _) => DIM,
        (false, true) => BOLD,
        (false, false) => Ansi::new(),
    };
    if kind == Kind::Data || phase.name == FileVerb::Replay.word() {
        line.put_decimal(columns.megabytes_end, &megabytes_cell(phase), painted(by_bytes));
    }
    line.put_decimal(columns.ops_end, &ops_cell(phase), painted(!by_bytes));
    if let Some(end) = columns.interval_end {
        line.put_right(end, &interval_cell(phase), painted(false));
    }
    put_latencies(line, columns, phase.figures.latency_ns.as_ref(), painted(false));
}

/// MB/s of the headline. A million or more is in scientific notation.
pub(crate) fn megabytes_cell(phase: &PhaseRecord) -> String {
    let megabytes = phase.figures.rate.bytes_per_second.map(|rate| rate / 1e6);
    match megabytes {
        Some(value) if value.is_finite() && value >= 999_999.5 => format!("{value:.2e}"),
        value => value.and_then(amount).unwrap_or_else(|| MISSING.into()),
    }
}

/// Operations per second of the headline.
pub(crate) fn ops_cell(phase: &PhaseRecord) -> String {
    phase.figures.rate.ops_per_second.and_then(amount).unwrap_or_else(|| MISSING.into())
}

/// Half-width of the rate's 95 % interval: "0.4%".
pub(crate) fn interval_cell(phase: &PhaseRecord) -> String {
    match phase.figures.rate.printed_half_width().map(|half| half * 100.0) {
        None => MISSING.into(),
        Some(percent) if percent < 0.05 => "0.0%".into(),
        Some(percent) if percent < 9.95 => format!("{percent:.1}%"),
        Some(percent) => format!("{percent:.0}%"),
    }
}

/// Cells of percentiles.
pub(crate) fn latency_cells(phase: &PhaseRecord, wanted: &[Percentile]) -> Vec<String> {
    percentiles::cells(phase.figures.latency_ns.as_ref(), wanted)
}

/// Returns the reason why a row has no numbers; `None` if it has.
pub(crate) fn missing_reason(phase: &PhaseRecord) -> Option<String> {
    let has_rate = phase.figures.rate.ops_per_second.is_some_and(f64::is_finite);
    match phase.status {
        Status::Skipped => Some(format!("skipped: {}", short_reason(phase))),
        Status::Failed => Some(format!("failed: {}", short_reason(phase))),
        Status::Done | Status::Partial if has_rate => None,
        Status::Done | Status::Partial => Some(format!("no rate: {}", short_reason(phase))),
    }
}

/// Returns the recorded reason, or says that there is none.
pub(crate) fn short_reason(phase: &PhaseRecord) -> String {
    match phase.reason.as_deref().map(str::trim) {
        Some(reason) if !reason.is_empty() => printable(reason),
        _ if phase.counts.ops == 0 => "no operation was completed".into(),
        _ => "no reason was recorded".into(),
    }
}

/// Suffix of the label of a test that memory answered.
fn from_memory(phase: &PhaseRecord) -> &'static str {
    let has_note = phase.judged.notes.iter().any(|note| note.code == "metadata_cache");
    let is_limit = matches!(limiter::from_phase(phase), Some((Limiter::MetadataCache, _)));
    let is_from_memory = Kind::from_phase(phase) == Kind::Files && (has_note || is_limit);
    if is_from_memory { " from memory" } else { "" }
}

/// Contents of the first column.
struct Subject {
    kind: Kind,
    name: String,
    label: String,
    repetition: u32,
}

impl Subject {
    fn from_phase(phase: &PhaseRecord, format_text: impl Fn(&str) -> String) -> Self {
        Self {
            kind: Kind::from_phase(phase),
            name: format_text(&phase.name),
            label: format_text(&format!("{}{}", phase.label, from_memory(phase))),
            repetition: phase.repetition,
        }
    }

    /// Returns three forms: in full, without blanks for alignment, and abbreviated.
    fn forms(&self) -> [String; 3] {
        let Self { kind, name, label, .. } = self;
        let padded = aligned(*kind, label);
        let short = label
            .replace(" buffered", " buf")
            .replace(" shared", " shr")
            .replace(" missing", " miss")
            .replace(" direct", " dir")
            .replace(" from memory", " mem");
        let repetition = self.repetition_suffix();
        [&padded, label, &short].map(|label| format!("{name:NAME_WIDTH$} {label}{repetition}"))
    }

    /// Returns the subject in at most `width` characters. A long one is abbreviated before it is cut.
    fn within(&self, width: usize) -> String {
        let forms = self.forms();
        if let Some(form) = forms.iter().find(|form| display_width(form) <= width) {
            return form.clone();
        }
        let repetition = self.repetition_suffix();
        let whole = forms[2].strip_suffix(&repetition).unwrap_or(&forms[2]);
        format!("{}{repetition}", fit(whole, width.saturating_sub(repetition.len())))
    }

    fn repetition_suffix(&self) -> String {
        if self.repetition > 1 { format!(" #{}", self.repetition) } else { String::new() }
    }
}

/// Pads a label so that patterns, and the words after them, are aligned.
pub(crate) fn aligned(kind: Kind, label: &str) -> String {
    if kind == Kind::Files {
        return label.to_owned();
    }
    // A second word, "rnd", says that the order is random.
    let block = label.find(" rnd ").map(|at| at + " rnd".len()).or_else(|| label.find(' '));
    match block.map(|at| label.split_at(at)) {
        Some((block, rest)) => format!("{block:PATTERN_WIDTH$}{rest}"),
        None => label.to_owned(),
    }
}

/// Renders both tables, each in the order of the phases. The table of the first phase comes first.
pub fn table(phases: &[PhaseRecord], widths: &Widths, style: &Style) -> String {
    let mut kinds: Vec<Kind> = Vec::new();
    for kind in phases.iter().map(Kind::from_phase) {
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    let tables: Vec<_> = kinds
        .into_iter()
        .map(|kind| {
            let mut lines = vec![head(kind, widths, style)];
            let mut last: Option<&PhaseRecord> = None;
            for (index, phase) in
                phases.iter().enumerate().filter(|(_, phase)| Kind::from_phase(phase) == kind)
            {
                if last.is_some_and(|last| is_group_boundary(last, phase)) {
                    lines.push(String::new());
                }
                lines.push(row_of(phase, &RowState::All { is_knee: is_knee(phases, index) }, widths, style));
                lines.extend(below(phase, widths, style));
                lines.extend(clients(phase, style));
                lines.extend(operations(phase, widths, style));
                lines.extend(cold::reads(phase, style));
                last = Some(phase);
            }
            lines.join("\n")
        })
        .collect();
    tables.join("\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use model::run::{ClientTotals, Step};
    use proptest::prelude::*;

    fn table_of(phases: &[PhaseRecord]) -> String {
        table(phases, &Widths::from_phases(phases), &sample::WIDE)
    }

    #[test]
    fn small_and_huge_values_keep_their_columns() {
        insta::assert_snapshot!(sample::plain(&table_of(&sample::extremes())));
    }

    #[test]
    fn rows_without_numbers_show_the_reason() {
        insta::assert_snapshot!(sample::plain(&table_of(&sample::problem_rows())));
    }

    #[test]
    fn repetitions_are_numbered() {
        insta::assert_snapshot!(sample::plain(&table_of(&sample::repeated())));
    }

    #[test]
    fn mix_operations_have_share_and_limiter() {
        let phases = [sample::mix()];
        let rendered = |width: usize| {
            let style = Style { has_unicode: true, width };
            let text = sample::plain(&table(&phases, &Widths::from_phases(&phases), &style));
            assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
            text
        };
        insta::assert_snapshot!(format!("{}\n\n{}", rendered(130), rendered(80)));
    }

    #[test]
    fn reads_writes_and_syncs_have_separate_lines() {
        let mut alone = sample::rw();
        alone.figures.steps.truncate(1);
        let mut rewrite = sample::rw();
        (rewrite.name, rewrite.label) = ("rewrite".into(), "4K rnd   q1".into());
        rewrite.figures.steps.truncate(2);
        let phases = [sample::rw(), alone, rewrite];
        let rendered = |width: usize| {
            let style = Style { has_unicode: true, width };
            sample::plain(&table(&phases, &Widths::from_phases(&phases), &style))
        };
        insta::assert_snapshot!(format!("{}\n\n{}", rendered(130), rendered(80)));
    }

    #[test]
    fn steps_of_unsteady_test_are_of_the_whole() {
        let lines = |steady: f64| {
            let mut phase = sample::rw();
            phase.figures.rate.steady_ops_per_second = Some(steady);
            phase.figures.rate.overall_ops_per_second = Some(20_000.0);
            let widths = Widths::from_phases(std::slice::from_ref(&phase));
            sample::plain(&table(&[phase], &widths, &sample::WIDE))
        };
        assert!(lines(21_000.0).contains("read, whole test") && !lines(20_100.0).contains("whole test"));
    }

    #[test]
    fn chosen_percentiles_are_columns_or_lines_below() {
        let chosen: Percentiles = "50,90,99,99.9,99.99".parse().unwrap();
        let phases = [sample::run().phases.remove(5), sample::rw()];
        let rendered = |width: usize| {
            let widths = Widths::from_phases(&phases).with_percentiles(Some(&chosen));
            let text = sample::plain(&table(&phases, &widths, &Style { has_unicode: true, width }));
            assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
            text
        };
        insta::assert_snapshot!([150, 110, 80].map(rendered).join("\n\n"));
    }

    #[test]
    fn labels_too_long_for_their_column_are_shortened() {
        insta::assert_snapshot!(sample::plain(&table_of(&sample::long_labels())));
    }

    #[test]
    fn clients_with_unequal_rates_have_a_line() {
        let mut phase = sample::phase("read:rnd4k:q32t4");
        let with = |slowest: f64, fastest: f64| ClientTotals {
            slowest_ops_per_second: Some(slowest),
            slowest: Some("ada".into()),
            median_ops_per_second: Some(1000.0),
            fastest_ops_per_second: Some(fastest),
            fastest: Some("eve\u{1b}[31m".into()),
            ..ClientTotals::default()
        };
        for (slowest, fastest, is_shown) in
            [(801.0, 1199.0, false), (799.0, 1000.0, true), (1000.0, 1201.0, true)]
        {
            phase.figures.together = Some(with(slowest, fastest));
            assert_eq!(clients(&phase, &sample::WIDE).is_some(), is_shown, "{slowest} to {fastest}");
        }
        phase.figures.together = Some(with(500.0, 12_345.0));
        let rendered = table_of(std::slice::from_ref(&phase));
        let line = sample::plain(rendered.lines().last().unwrap());
        assert!(line.starts_with("    clients: ada 500 to eve"), "{line}");
        assert!(line.ends_with(" 12,345, median 1,000") && !line.contains('\u{1b}'), "{line}");
    }

    #[test]
    fn mix_operations_are_sorted_by_time() {
        let mut phase = sample::phase("mix:mail");
        let step = |name: &str, ops, elapsed_ns| Step {
            name: name.into(),
            ops,
            elapsed_ns: Some(elapsed_ns),
            waiting_ns: None,
            latency_ns: None,
            histogram: None,
        };
        (phase.counts.ops, phase.figures.rate.ops_per_second) = (4000, Some(2000.0));
        phase.figures.steps = vec![step("read", 3000, 1_000), step("create", 2000, 3_000)];
        phase.judged.verdict = Some(model::run::Verdict::new(Limiter::KernelCpu, 0.9, Vec::new()));
        let rendered = table_of(std::slice::from_ref(&phase));
        let lines: Vec<_> = rendered.lines().rev().take(2).map(sample::plain).collect();
        assert!(lines[1].starts_with("    create") && lines[1].contains(" 1,000 "), "{rendered}");
        assert!(lines[0].starts_with("    read") && lines[0].contains(" 25 % "), "{rendered}");
        phase.name = "replay".into();
        phase.figures.rate.bytes_per_second = Some(4.56e8);
        let rendered = sample::plain(&table_of(std::slice::from_ref(&phase)));
        assert!(rendered.lines().next().unwrap().contains(" MB/s, time "), "{rendered}");
        assert!(rendered.contains(" 456 ") && rendered.contains(" 75 % "), "{rendered}");
        phase.name = "create".into();
        let rendered = table_of(std::slice::from_ref(&phase));
        assert!(!rendered.contains("25 %") && !rendered.contains("time"), "{rendered}");
    }

    #[test]
    fn styled_table_rows_snapshot() {
        let phases = sample::run().phases;
        let widths = Widths::from_phases(&phases);
        let rendered: Vec<_> = [0, 2, 5, 8].map(|index| row(&phases[index], &widths, &sample::WIDE)).into();
        insta::assert_snapshot!(rendered.join("\n").replace('\x1b', "␛"));
    }

    #[test]
    fn table_equals_streamed_rows() {
        let run = sample::run();
        let widths = Widths::from_plan(&run.plan);
        assert_eq!(widths, Widths::from_run(&run));
        let whole = table(&run.phases, &widths, &sample::WIDE);
        for phase in &run.phases {
            // The limiter comes behind the streamed row.
            let streamed = row(phase, &widths, &sample::WIDE);
            assert!(whole.lines().any(|line| line.starts_with(&streamed)), "{streamed}");
        }
    }

    #[test]
    fn table_column_widens_only_for_long_labels() {
        let width = |specs: &[&str]| {
            let phases: Vec<_> = specs.iter().map(|spec| sample::phase(spec)).collect();
            let Widths { data, files, .. } = Widths::from_phases(&phases);
            (data, files)
        };
        let least = SUBJECT_WIDTH_MIN;
        assert_eq!(width(&[]), (least, least));
        assert_eq!(width(&["read:seq1m:buffered", "stat:t4"]), (least, least));
        assert_eq!(width(&["read:rnd4k:q32:rate=20000,poisson", "stat:t4"]), (38, least));
        assert_eq!(
            width(&["write:seq128k:q32:buffered:shared:compress=50:dedupe=20"]),
            (SUBJECT_WIDTH_MAX, least)
        );
    }

    /// A quarter of an hour: no operation is waited for so long, and longer latencies would take another column.
    const LATENCY_MAX_NS: u64 = 900 * 1_000_000_000;

    proptest! {
        #[test]
        fn rows_are_as_wide_as_their_heading(
            ops in 0.0f64..=1e9,
            block in 1u64..=1 << 20,
            latencies in proptest::array::uniform3(proptest::option::of(any::<u64>())),
            repetition in 1u32..1000,
            has_unicode in any::<bool>(),
        ) {
            let mut phase = sample::phase("read:rnd4k:q32t4");
            // Rates go beyond a terabyte a second, which is more than anything that can be measured.
            phase.figures.rate.ops_per_second = Some(ops);
            phase.figures.rate.bytes_per_second = Some(ops * block as f64);
            phase.repetition = repetition;
            if let Some(latency) = phase.figures.latency_ns.as_mut() {
                [latency.p50, latency.p99, latency.p99_9] = latencies;
            }
            let width = |text: &str| sample::plain(text).chars().count();
            let widths = Widths::from_phases(std::slice::from_ref(&phase));
            let line = row(&phase, &widths, &Style { has_unicode, width: 80 });
            prop_assert_eq!(width(&line), width(&head(Kind::Data, &widths, &sample::WIDE)), "{}", sample::plain(&line));
            let cells = sample::plain(&line).split("  ").count();
            prop_assert!(cells >= 4, "{}", sample::plain(&line));
        }

        #[test]
        fn row_fits_terminal_of_80_columns_or_more(
            ops in 100.0f64..=99_999_999.0,
            latencies in proptest::array::uniform3(proptest::option::of(0..LATENCY_MAX_NS)),
            limiter in proptest::sample::select(Limiter::ALL),
            columns in 80usize..160,
            chosen in proptest::option::of(proptest::sample::subsequence(vec![1.0, 50.0, 90.0, 99.0, 99.9, 99.9999], 1..=6)),
            kind in proptest::sample::select(vec!["write:seq128k:q32t4", "read:rnd4k:buffered", "stat:t64"]),
        ) {
            let mut phase = sample::phase(kind);
            phase.figures.rate.ops_per_second = Some(ops);
            // There is room for a terabyte a second, which no measurement reaches.
            let most = |bytes: u64| (ops * bytes as f64).min(999_999e6);
            phase.figures.rate.bytes_per_second = phase.workload.block_bytes.map(most);
            if let Some(latency) = phase.figures.latency_ns.as_mut() {
                [latency.p50, latency.p99, latency.p99_9] = latencies;
            }
            let likely = model::run::Confidence::Likely;
            phase.judged.verdict = Some(model::run::Verdict::new(limiter, 0.92, Vec::new()).at_most(likely));
            let style = Style { has_unicode: true, width: columns };
            let chosen = chosen.and_then(|percents| Percentiles::from_percents(&percents));
            let widths = Widths::from_phases(std::slice::from_ref(&phase)).with_percentiles(chosen.as_ref());
            for line in [row(&phase, &widths, &style), head(Kind::from_phase(&phase), &widths, &style)] {
                let line = sample::plain(&line);
                prop_assert!(line.chars().count() <= columns, "{line}");
                prop_assert!(!line.ends_with(' '), "{line}");
            }
        }
    }
}
