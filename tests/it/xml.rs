//! A strict look at XML 1.0, as the parsers of CI systems read it.

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

/// An element: its name, its attributes, and its own text.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Element {
    pub(crate) name: String,
    pub(crate) attributes: Vec<(String, String)>,
    pub(crate) text: String,
}

impl Element {
    pub(crate) fn attribute(&self, name: &str) -> &str {
        let found = self.attributes.iter().find(|(key, _)| key == name);
        found.map_or("", |(_, value)| value)
    }
}

/// Source: XML 1.0, fifth edition, production 2, `Char`.
fn is_char(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..)
}

/// All elements in the order in which they begin; fails the test where the text is not well-formed.
pub(crate) fn elements(xml: &str) -> Vec<Element> {
    let bad = xml.chars().find(|&c| !is_char(c));
    assert_eq!(bad, None, "no character of XML 1.0");
    let mut reader = Reader::from_str(xml);
    let mut elements: Vec<Element> = Vec::new();
    let mut open: Vec<usize> = Vec::new();
    loop {
        let event = reader
            .read_event()
            .unwrap_or_else(|error| panic!("{error}\n{xml}"));
        let text = match event {
            Event::Eof => break,
            Event::Start(start) => {
                open.push(elements.len());
                elements.push(element(&start));
                continue;
            }
            Event::Empty(start) => {
                elements.push(element(&start));
                continue;
            }
            Event::End(_) => {
                open.pop();
                continue;
            }
            Event::Text(text) => {
                let text = text.decode().unwrap().into_owned();
                assert!(!text.contains("]]>"), "{text}");
                text
            }
            Event::CData(text) => text.decode().unwrap().into_owned(),
            Event::GeneralRef(reference) => {
                let name = reference.decode().unwrap();
                unescaped(&format!("&{name};"))
            }
            Event::Decl(_) | Event::Comment(_) | Event::PI(_) => continue,
            Event::DocType(_) => panic!("a document type"),
        };
        match open.last() {
            Some(&at) => elements[at].text.push_str(&text),
            None => assert!(text.trim().is_empty(), "text outside of the root: {text}"),
        }
    }
    assert!(open.is_empty(), "an element is not closed");
    elements
}

fn element(start: &BytesStart<'_>) -> Element {
    let attributes = start.attributes().map(|attribute| {
        let attribute = attribute.unwrap();
        let raw = String::from_utf8(attribute.value.to_vec()).unwrap();
        assert!(!raw.contains('<'), "{raw}");
        (
            String::from_utf8(attribute.key.as_ref().to_vec()).unwrap(),
            unescaped(&raw),
        )
    });
    Element {
        name: String::from_utf8(start.name().as_ref().to_vec()).unwrap(),
        attributes: attributes.collect(),
        text: String::new(),
    }
}

/// A reference to a character that XML cannot hold is no less wrong than the character.
fn unescaped(text: &str) -> String {
    let text = quick_xml::escape::unescape(text).unwrap().into_owned();
    assert!(text.chars().all(is_char), "{text:?}");
    text
}

#[test]
fn a_strict_look_sees_what_is_not_well_formed() {
    let good = "<a b=\"1 &amp; &#9;2\">x<![CDATA[<y>]]>&lt;<c/></a>";
    let c = Element {
        name: "c".into(),
        ..Element::default()
    };
    let a = Element {
        name: "a".into(),
        attributes: vec![("b".into(), "1 & \t2".into())],
        text: "x<y><".into(),
    };
    assert_eq!(elements(good), [a, c]);
    for bad in [
        "<a>\u{1b}</a>",
        "<a>&#27;</a>",
        "<a>\u{ffff}</a>",
        "<a b='1' b='2'/>",
        "<a>&nope;</a>",
        "<a><b></a>",
        "<a>]]></a>",
        "<a b='<'/>",
        "<a>",
        "<a/>x",
    ] {
        assert!(
            std::panic::catch_unwind(|| elements(bad)).is_err(),
            "{bad:?}"
        );
    }
}
