//! What the junit-report crate cannot write, put into what it wrote.

use std::time::Duration;

use anyhow::{Context, bail};
use quick_xml::events::attributes::Attribute;
use quick_xml::events::{BytesEnd, BytesStart, Event};
use quick_xml::{Reader, Writer};

/// What a suite lacks.
pub(super) struct SuiteExtras {
    pub(super) skipped: usize,
    pub(super) failures: usize,
    pub(super) errors: usize,
    /// In place of the crate's, which has a zone.
    pub(super) timestamp: String,
    pub(super) file: String,
    pub(super) properties: Vec<(String, String)>,
    /// One a case, in order.
    pub(super) cases: Vec<CaseExtras>,
}

/// What a case lacks.
pub(super) struct CaseExtras {
    pub(super) line: u32,
    /// Whole milliseconds.
    pub(super) time: Duration,
}

impl SuiteExtras {
    fn time(&self) -> Duration {
        self.cases.iter().map(|case| case.time).sum()
    }
}

/// `xml` with totals, `skipped`, properties, files, lines and times, one element a line.
pub(super) fn rewrite(xml: &str, suites: &[SuiteExtras]) -> anyhow::Result<String> {
    let mut reader = Reader::from_str(xml);
    let mut writer = Writer::new(Vec::with_capacity(xml.len() + 1024));
    let mut next_suite = suites.iter();
    let mut next_case = [].iter();
    loop {
        let event = reader.read_event()?;
        let (is_empty, start) = match event {
            Event::Start(start) => (false, start),
            Event::Empty(start) => (true, start),
            Event::Eof => break,
            Event::End(end) => {
                writer.write_event(Event::End(end))?;
                writer.get_mut().push(b'\n');
                continue;
            }
            other @ (Event::Text(_)
            | Event::CData(_)
            | Event::Comment(_)
            | Event::Decl(_)
            | Event::PI(_)
            | Event::DocType(_)
            | Event::GeneralRef(_)) => {
                writer.write_event(other)?;
                continue;
            }
        };
        match start.name().as_ref() {
            b"testsuites" => {
                writer.get_mut().push(b'\n');
                write_element(&mut writer, root(suites), is_empty)?;
            }
            b"testsuite" => {
                let extras = next_suite.next().context("more suites than jobs")?;
                next_case = extras.cases.iter();
                writer.write_event(Event::Start(suite(&start, extras)?))?;
                writer.get_mut().push(b'\n');
                write_properties(&mut writer, &extras.properties)?;
                if is_empty {
                    writer.write_event(Event::End(BytesEnd::new("testsuite")))?;
                    writer.get_mut().push(b'\n');
                }
            }
            b"testcase" => {
                let extras = next_case
                    .next()
                    .context("more cases than prompts and checks")?;
                write_element(&mut writer, case(&start, extras)?, is_empty)?;
            }
            _ => write_element(&mut writer, start, is_empty)?,
        }
    }
    if next_suite.next().is_some() || next_case.next().is_some() {
        bail!("fewer suites or cases than jobs, prompts and checks");
    }
    Ok(String::from_utf8(writer.into_inner())?)
}

fn write_element(
    writer: &mut Writer<Vec<u8>>,
    start: BytesStart<'_>,
    is_empty: bool,
) -> anyhow::Result<()> {
    let holds_elements = matches!(start.name().as_ref(), b"testsuites" | b"testcase");
    writer.write_event(if is_empty {
        Event::Empty(start)
    } else {
        Event::Start(start)
    })?;
    if is_empty || holds_elements {
        writer.get_mut().push(b'\n');
    }
    Ok(())
}

fn write_properties(
    writer: &mut Writer<Vec<u8>>,
    properties: &[(String, String)],
) -> anyhow::Result<()> {
    writer.write_event(Event::Start(BytesStart::new("properties")))?;
    writer.get_mut().push(b'\n');
    for (name, value) in properties {
        let mut property = BytesStart::new("property");
        property.push_attribute(("name", &**name));
        property.push_attribute(("value", &**value));
        write_element(writer, property, true)?;
    }
    writer.write_event(Event::End(BytesEnd::new("properties")))?;
    writer.get_mut().push(b'\n');
    Ok(())
}

fn root(suites: &[SuiteExtras]) -> BytesStart<'static> {
    let sum = |count: fn(&SuiteExtras) -> usize| suites.iter().map(count).sum::<usize>();
    let mut root = BytesStart::new("testsuites");
    root.push_attribute(("name", "lightsout"));
    root.push_attribute(("tests", &*sum(|suite| suite.cases.len()).to_string()));
    root.push_attribute(("failures", &*sum(|suite| suite.failures).to_string()));
    root.push_attribute(("errors", &*sum(|suite| suite.errors).to_string()));
    let time = suites.iter().map(SuiteExtras::time).sum();
    root.push_attribute(("time", &*seconds(time)));
    root
}

fn suite(start: &BytesStart<'_>, extras: &SuiteExtras) -> anyhow::Result<BytesStart<'static>> {
    let mut suite = copy_but(start, "testsuite", &["time", "timestamp"])?;
    suite.push_attribute(("skipped", &*extras.skipped.to_string()));
    suite.push_attribute(("timestamp", &*extras.timestamp));
    suite.push_attribute(("time", &*seconds(extras.time())));
    suite.push_attribute(("file", &*extras.file));
    Ok(suite)
}

fn case(start: &BytesStart<'_>, extras: &CaseExtras) -> anyhow::Result<BytesStart<'static>> {
    let mut case = copy_but(start, "testcase", &["time"])?;
    case.push_attribute(("line", &*extras.line.to_string()));
    case.push_attribute(("time", &*seconds(extras.time)));
    Ok(case)
}

fn copy_but(
    start: &BytesStart<'_>,
    name: &'static str,
    left_out: &[&str],
) -> anyhow::Result<BytesStart<'static>> {
    let mut copy = BytesStart::new(name);
    for attribute in start.attributes() {
        let attribute: Attribute<'_> = attribute?;
        if !left_out
            .iter()
            .any(|name| name.as_bytes() == attribute.key.as_ref())
        {
            copy.push_attribute(attribute);
        }
    }
    Ok(copy)
}

/// Decimal seconds with three digits behind the dot, no exponent: what every reader takes.
fn seconds(time: Duration) -> String {
    format!("{}.{:03}", time.as_secs(), time.subsec_millis())
}
