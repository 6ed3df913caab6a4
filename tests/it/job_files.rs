//! Job files and what is said of them: `fixtures/job-files/NAME.yaml` beside `NAME.txt`.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lightsout::job::{
    self, Check, Diagnostic, Env, Job, Limits, Matching, ModelChoice, ModelFacts, OnDenied,
    Overrides, Prompt, Source,
};
use lightsout::models::{self, Price, TokenPrices, Usd};
use proptest::prelude::*;

/// A disk and an environment in memory: `/repo` with a few files, and what a test adds.
struct Memory {
    files: BTreeMap<PathBuf, Vec<u8>>,
    env: BTreeMap<&'static str, &'static str>,
}

impl Memory {
    fn new() -> Self {
        let mut memory = Self {
            files: BTreeMap::new(),
            env: BTreeMap::new(),
        };
        for (name, text) in [
            ("ask.md", &b"What changed?\n"[..]),
            ("blank.md", b" \n"),
            ("nul.md", b"a\0b"),
            ("invisible.md", "\u{200b}\n".as_bytes()),
            ("latin1.md", b"caf\xe9"),
            ("template.md", b"Look at {{ inputs.title }}."),
            ("sub/file", b""),
            ("cassette/001.sse", b""),
            ("cassette.yaml", b""),
        ] {
            memory.add(name, text);
        }
        memory
    }

    fn add(&mut self, name: &str, text: impl Into<Vec<u8>>) {
        self.files
            .insert(Path::new("/repo").join(name), text.into());
    }

    fn with(text: impl Into<Vec<u8>>) -> Self {
        let mut memory = Self::new();
        memory.add("job.yaml", text);
        memory
    }

    fn load(&self, name: &str) -> Result<Job, Vec<Diagnostic>> {
        job::load(Path::new(name), &Overrides::default(), self)
    }

    fn load_with(&self, overrides: &Overrides) -> Result<Job, Vec<Diagnostic>> {
        job::load(Path::new("job.yaml"), overrides, self)
    }
}

impl Source for Memory {
    fn read(&self, path: &Path, limit: usize) -> io::Result<Vec<u8>> {
        let found = self.files.get(&self.cwd().join(path));
        let bytes = found.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no such file"))?;
        Ok(bytes.iter().copied().take(limit + 1).collect())
    }

    fn env(&self, name: &str) -> Option<String> {
        self.env.get(name).map(|value| (*value).to_owned())
    }

    fn is_file(&self, path: &Path) -> bool {
        self.files.contains_key(path)
    }

    fn is_dir(&self, path: &Path) -> bool {
        self.files
            .keys()
            .any(|file| file != path && file.starts_with(path))
    }

    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        let mut canonical = PathBuf::new();
        for part in self.cwd().join(path).components() {
            match part {
                std::path::Component::CurDir => {}
                std::path::Component::ParentDir => {
                    canonical.pop();
                }
                _ => canonical.push(part),
            }
        }
        if self.is_file(&canonical) || self.is_dir(&canonical) {
            Ok(canonical)
        } else {
            Err(io::Error::other("no such file or directory"))
        }
    }

    fn home(&self) -> Option<PathBuf> {
        Some(PathBuf::from("/home/somebody"))
    }

    fn cwd(&self) -> PathBuf {
        PathBuf::from("/repo")
    }
}

/// Faults of a file that has some, warnings of a file that has none.
fn said_of(result: Result<Job, Vec<Diagnostic>>) -> String {
    job::render(&result.map_or_else(|faults| faults, |job| job.warnings))
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/job-files")
}

/// What is said of a fixture now is left under `target/tmp/job-files`; to accept it, copy it over.
fn compare(name: &str) -> Result<(), String> {
    let yaml = std::fs::read(fixtures().join(format!("{name}.yaml"))).expect("the fixture is read");
    let mut memory = Memory::new();
    memory.add(&format!("{name}.yaml"), yaml);
    let said = said_of(memory.load(&format!("{name}.yaml")));
    let expected = std::fs::read_to_string(fixtures().join(format!("{name}.txt")));
    if expected.is_ok_and(|expected| expected == said) {
        return Ok(());
    }
    let actual = Path::new(env!("CARGO_TARGET_TMPDIR")).join("job-files");
    std::fs::create_dir_all(&actual).expect("the directory is made");
    std::fs::write(actual.join(format!("{name}.txt")), &said).expect("the text is written");
    Err(format!("--- {name}\n{said}"))
}

#[test]
fn every_job_file_is_told_its_faults() {
    let mut names: Vec<String> = std::fs::read_dir(fixtures())
        .expect("the fixtures are there")
        .map(|entry| entry.expect("an entry is read").path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "yaml")
        })
        .map(|path| {
            path.file_stem()
                .expect("a stem")
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    names.sort();
    assert!(names.len() >= 45, "only {} fixtures", names.len());
    let wrong: Vec<String> = names
        .iter()
        .filter_map(|name| compare(name).err())
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn g54_a_repeated_or_mistyped_key_and_a_mistyped_rule_let_nothing_run() {
    for name in [
        "g54-duplicate-keys",
        "g54-near-miss-keys",
        "g54-mistyped-rules",
    ] {
        compare(name).unwrap_or_else(|said| panic!("{said}"));
        let yaml = std::fs::read(fixtures().join(format!("{name}.yaml"))).unwrap();
        assert!(Memory::with(yaml).load("job.yaml").is_err(), "{name}");
    }
}

fn usd(dollars: f64) -> Usd {
    Usd::from_decimal(dollars).expect("an amount")
}

fn micros(dollars_per_million: f64) -> Usd {
    Usd::from_picos(usd(dollars_per_million).picos() / 1_000_000)
}

/// Everything of a prompt that can be compared.
fn parts(prompt: &Prompt) -> impl PartialEq + std::fmt::Debug + use<> {
    (
        (prompt.id.clone(), prompt.line, prompt.text.clone()),
        (
            prompt.model.clone(),
            prompt.system.clone(),
            prompt.append_system.clone(),
        ),
        (prompt.on_denied, prompt.max_turns, prompt.max_budget),
        (prompt.timeout, prompt.workspace.clone(), prompt.env.clone()),
        (prompt.checks.clone(), prompt.limits),
    )
}

#[test]
fn the_smallest_job_has_the_defaults_of_the_specification() {
    let memory = Memory::with("prompts:\n  - Say hello.\nmax_budget_usd: 0.5\n");
    let job = memory.load("job.yaml").unwrap();
    let sonnet = models::find("claude-sonnet-5-5").unwrap();
    assert_eq!(
        (job.name.as_str(), job.description, job.file, job.warnings),
        ("job", None, PathBuf::from("job.yaml"), vec![])
    );
    assert_eq!(
        job.digest,
        "sha256:a83ee20df61da066a148ab8ea2e02f00dda7273603524dd3456b38c3bddd726a"
    );
    let [prompt] = job.prompts.as_slice() else {
        panic!("one prompt");
    };
    assert_eq!(
        parts(prompt),
        parts(&Prompt {
            id: "prompt-1".to_owned(),
            line: 2,
            text: "Say hello.".to_owned(),
            model: ModelChoice::Anthropic(ModelFacts {
                id: "claude-sonnet-5-5".to_owned(),
                context_window: sonnet.context_window,
                max_output: sonnet.max_output,
                price: sonnet.price.unwrap(),
            }),
            system: None,
            append_system: None,
            policy: prompt.policy.clone(),
            on_denied: OnDenied::Fail,
            max_turns: 25,
            max_budget: Some(usd(0.5)),
            timeout: Duration::from_mins(30),
            workspace: PathBuf::from("/repo"),
            env: Env::default(),
            checks: vec![],
            limits: Limits {
                attempts: 10,
                idle_timeout: Duration::from_secs(90),
                parallel_tools: 10,
            },
        })
    );
    assert!(!prompt.policy.offers("Read"));
}

/// The job says one thing everywhere, the second prompt another.
const MERGED: &str = r#"
name: merged
description: What wins
model: claude-haiku-5-5
system: job
append_system: job
allowed_tools: [Read, Write]
denied_tools: [Glob]
on_denied: warn
max_turns: 3
max_budget_usd: 1
timeout: 1h
workspace: {dir: sub}
env: {pass: [A], set: {PORT: 8080, V: 1.10, T: true, E: ""}}
sandbox: {mode: off}
limits: {attempts: 4, parallel_tools: 2}
checks: [{command: make test, timeout: 5m}]
providers:
  anthropic: {max_output: 9000, context_window: 50000}
  claude-haiku-5-5: {price: {input: 1, output: 5}, context_window: 70000}
  anthropic/house: {price: {input: 2, output: 4, cache_read: 0.2, cache_write_5m: 2.5}}
prompts:
  - One.
  - id: second
    prompt_file: ask.md
    model: anthropic/house
    system: own
    append_system: own
    allowed_tools: ["Read(src/**)", Glob, Grep]
    denied_tools: [Grep]
    on_denied: stop
    max_turns: 7
    max_budget_usd: 2
    timeout: 90s
    workspace: {dir: .}
    env: {pass: [B]}
    limits: {attempts: 1, idle_timeout: 10s}
    checks: []
"#;

#[test]
fn what_a_prompt_says_wins_over_what_the_job_says() {
    let job = Memory::with(MERGED).load("job.yaml").unwrap();
    assert_eq!(
        (job.name.as_str(), job.description.as_deref()),
        ("merged", Some("What wins"))
    );
    let [first, second] = job.prompts.as_slice() else {
        panic!("two prompts");
    };
    let price = |input, output, cache_read, cache_write_5m, cache_write_1h| Price::PerToken {
        prices: TokenPrices {
            input: micros(input),
            output: micros(output),
            cache_write_5m: micros(cache_write_5m),
            cache_write_1h: micros(cache_write_1h),
            cache_read: micros(cache_read),
        },
        step: None,
    };
    let set = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        pairs.iter().map(owned).collect()
    };
    let variables = set(&[("PORT", "8080"), ("V", "1.10"), ("T", "true"), ("E", "")]);
    assert_eq!(
        parts(first),
        parts(&Prompt {
            id: "prompt-1".to_owned(),
            line: 23,
            text: "One.".to_owned(),
            model: ModelChoice::Anthropic(ModelFacts {
                id: "claude-haiku-5-5".to_owned(),
                context_window: Some(70_000),
                max_output: Some(9000),
                // Cache reads as dear as input, cache writes a quarter dearer.
                price: price(1.0, 5.0, 1.0, 1.25, 2.0),
            }),
            system: Some("job".to_owned()),
            append_system: Some("job".to_owned()),
            policy: first.policy.clone(),
            on_denied: OnDenied::Warn,
            max_turns: 3,
            max_budget: Some(usd(1.0)),
            timeout: Duration::from_hours(1),
            workspace: PathBuf::from("/repo/sub"),
            env: Env {
                pass: vec!["A".to_owned()],
                set: variables.clone(),
            },
            checks: vec![Check {
                id: "check-1".to_owned(),
                line: 17,
                command: "make test".to_owned(),
                timeout: Duration::from_mins(5),
            }],
            limits: Limits {
                attempts: 4,
                idle_timeout: Duration::from_secs(90),
                parallel_tools: 2,
            },
        })
    );
    assert_eq!(
        parts(second),
        parts(&Prompt {
            id: "second".to_owned(),
            line: 24,
            text: "What changed?\n".to_owned(),
            model: ModelChoice::Anthropic(ModelFacts {
                id: "house".to_owned(),
                context_window: Some(50_000),
                max_output: Some(9000),
                price: price(2.0, 4.0, 0.2, 2.5, 4.0),
            }),
            system: Some("own".to_owned()),
            append_system: Some("own".to_owned()),
            policy: second.policy.clone(),
            on_denied: OnDenied::Stop,
            max_turns: 7,
            max_budget: Some(usd(2.0)),
            timeout: Duration::from_secs(90),
            workspace: PathBuf::from("/repo"),
            env: Env {
                pass: vec!["B".to_owned()],
                set: variables,
            },
            checks: vec![],
            limits: Limits {
                attempts: 1,
                idle_timeout: Duration::from_secs(10),
                parallel_tools: 2,
            },
        })
    );
}

#[test]
fn a_prompt_replaces_the_allowed_tools_and_adds_to_the_denied_ones() {
    let job = Memory::with(MERGED).load("job.yaml").unwrap();
    let offered = |prompt: &Prompt| -> Vec<&str> {
        ["Read", "Write", "Glob", "Grep"]
            .into_iter()
            .filter(|tool| prompt.policy.offers(tool))
            .collect()
    };
    let all: Vec<_> = job.prompts.iter().map(offered).collect();
    assert_eq!(all, [vec!["Read", "Write"], vec!["Read"]]);
}

#[test]
fn the_command_line_wins_over_the_file_and_the_file_over_the_environment() {
    let model = |memory: &Memory, overrides: &Overrides| match memory
        .load_with(overrides)
        .unwrap()
        .prompts
        .remove(0)
        .model
    {
        ModelChoice::Anthropic(facts) => facts.id,
        ModelChoice::Replay { path, matching } => format!("{} {matching:?}", path.display()),
    };
    let silent = "prompts: [Say hello.]\nmax_budget_usd: 1\nreplay: {match: order}\n";
    let spoken = format!("{silent}model: claude-haiku-5-5\n");
    let none = Overrides::default();
    let given = Overrides {
        model: Some("claude-opus-5-5".to_owned()),
        ..Overrides::default()
    };
    let replayed = Overrides {
        replay: Some(PathBuf::from("cassette")),
        ..given.clone()
    };
    let mut memory = Memory::with(silent);
    assert_eq!(model(&memory, &none), "claude-sonnet-5-5");
    memory.env.insert("LIGHTSOUT_MODEL", "replay/cassette.yaml");
    assert_eq!(model(&memory, &none), "/repo/cassette.yaml Order");
    memory.add("job.yaml", spoken);
    assert_eq!(model(&memory, &none), "claude-haiku-5-5");
    assert_eq!(model(&memory, &given), "claude-opus-5-5");
    assert_eq!(model(&memory, &replayed), "/repo/cassette Order");
    memory.add("job.yaml", "prompts: [Say hello.]\nmax_budget_usd: 1\n");
    assert_eq!(model(&memory, &replayed), "/repo/cassette Strict");
}

#[test]
fn a_fault_outside_the_file_is_shown_at_its_prompts_and_names_its_origin() {
    let mut memory = Memory::with("max_budget_usd: 1\nprompts: [Say hello.]\n");
    memory.env.insert("LIGHTSOUT_MODEL", "claude-haikus-5-5");
    let missing = Overrides {
        replay: Some(PathBuf::from("nowhere")),
        ..Overrides::default()
    };
    let other = Overrides {
        model: Some("gemini/flash".to_owned()),
        ..Overrides::default()
    };
    for (overrides, message) in [
        (
            Overrides::default(),
            "LIGHTSOUT_MODEL: unknown model \"claude-haikus-5-5\"",
        ),
        (
            missing,
            "--replay: there is no cassette at \"nowhere\": no such file or directory",
        ),
        (other, "--model: unknown provider \"gemini\""),
    ] {
        let faults = memory.load_with(&overrides).unwrap_err();
        let told: Vec<_> = faults
            .iter()
            .map(|fault| {
                (
                    fault.line,
                    fault.column,
                    fault.width,
                    fault.message.as_str(),
                )
            })
            .collect();
        assert_eq!(told, [(2, 1, 7, message)]);
    }
}

#[test]
fn a_budget_on_the_command_line_stands_for_the_one_in_the_file() {
    let overrides = Overrides {
        max_budget: Some(usd(0.25)),
        ..Overrides::default()
    };
    for text in ["prompts: [a]\n", "prompts: [a]\nmax_budget_usd: 5\n"] {
        let job = Memory::with(text).load_with(&overrides).unwrap();
        assert_eq!(job.prompts[0].max_budget, Some(usd(0.25)), "{text}");
    }
    let replayed = "model: replay/cassette\nprompts: [a]\n";
    let job = Memory::with(replayed).load("job.yaml").unwrap();
    assert_eq!(
        (&job.prompts[0].model, job.prompts[0].max_budget),
        (
            &ModelChoice::Replay {
                path: PathBuf::from("/repo/cassette"),
                matching: Matching::Strict
            },
            None
        )
    );
}

#[test]
fn all_files_of_a_run_are_told_their_faults_at_once() {
    let mut memory = Memory::new();
    let good = "name: same\nprompts: [a]\nmax_budget_usd: 1\n";
    memory.add("one.yaml", good);
    memory.add("two.yaml", "prompts: [a]\nmax_budget_usd: lots\n");
    memory.add("three.yaml", good);
    memory.add("same.yaml", "prompts: [a]\nmax_budget_usd: 1\n");
    let load = |names: &[&str]| {
        let paths: Vec<PathBuf> = names.iter().map(PathBuf::from).collect();
        job::load_all(&paths, &Overrides::default(), &memory)
    };
    let told = |names: &[&str]| -> Vec<String> {
        let faults = load(names).unwrap_err();
        faults
            .iter()
            .map(|f| format!("{}:{}:{}: {}", f.file, f.line, f.column, f.message))
            .collect()
    };
    let twice = "two jobs of this run have the name \"same\", the first in one.yaml";
    assert_eq!(
        told(&[
            "one.yaml",
            "two.yaml",
            "three.yaml",
            "same.yaml",
            "none.yaml"
        ]),
        [
            "two.yaml:2:17: `max_budget_usd` must be a number of US dollars, found \"lots\""
                .to_owned(),
            format!("three.yaml:1:7: {twice}"),
            format!("same.yaml:1:1: {twice}"),
            "none.yaml:0:0: cannot read the job file: no such file (looked in /repo)".to_owned(),
        ]
    );
    let jobs = load(&["one.yaml"]).unwrap();
    let names: Vec<_> = jobs.iter().map(|job| job.name.as_str()).collect();
    assert_eq!(names, ["same"]);
}

/// Files that would take long or much memory if they were not refused.
#[test]
fn what_is_too_large_or_too_deep_is_refused() {
    let mut bomb = format!("a: &a \"{}\"\nb:\n", "x".repeat(900_000));
    bomb.push_str(&"  - *a\n".repeat(10_000));
    let many_prompts = format!("max_budget_usd: 1\nprompts: [{}]", "x,".repeat(60_000));
    for (text, said) in [
        (
            "#".repeat((1 << 20) + 1),
            "0:0: the file is larger than 1 MiB",
        ),
        (
            "[".repeat(1 << 20),
            "1:1: the file has too many brackets to be read quickly: 1048576 of `[` and `{`",
        ),
        ("[".repeat(1000), "1:66: nested more than 64 levels deep"),
        (
            "{a: ".repeat(1000),
            "1:258: nested more than 64 levels deep",
        ),
        (
            "- ".repeat(50_000),
            "1:131: nested more than 64 levels deep",
        ),
        (
            bomb,
            "11:5: the file holds too much when its aliases are unfolded",
        ),
        (
            many_prompts,
            "2:100001: the file holds too much when its aliases are unfolded",
        ),
    ] {
        let faults = Memory::with(text).load("job.yaml").unwrap_err();
        let told: Vec<_> = faults
            .iter()
            .map(|f| format!("{}:{}: {}", f.line, f.column, f.message))
            .collect();
        assert_eq!(told, [said]);
    }
}

#[test]
fn a_file_of_faults_shows_the_first_hundred() {
    let keys: Vec<String> = (0..3000).map(|i| format!("key{i}: 1\n")).collect();
    let faults = Memory::with(keys.concat()).load("job.yaml").unwrap_err();
    assert_eq!(faults.len(), 100);
    assert_eq!(
        faults[99].message,
        "unknown key \"key97\" in the job file (and 2902 faults more in this file)"
    );
}

#[test]
fn a_diagnostic_is_one_fault_whatever_the_file_holds() {
    let diagnostic = Diagnostic {
        severity: job::Severity::Error,
        file: "a\nb.yaml".to_owned(),
        line: 1,
        column: 3,
        width: 99,
        source: "\tab\u{1b}[31m".to_owned(),
        message: "found \"x\n::error::y\"".to_owned(),
        help: Some("no\r".to_owned()),
    };
    assert_eq!(
        job::render(&[diagnostic]),
        "a\\nb.yaml:1:3: error: found \"x\\n::error::y\"\n    1 | \tab?[31m\n      | \t ^^^^^^\n   help: no\\r\n1 error\n"
    );
}

#[test]
fn a_fault_of_the_whole_file_names_no_place() {
    let mut memory = Memory::new();
    memory.add("large.yaml", "#".repeat((1 << 20) + 1));
    for (name, said) in [
        (
            "nope.yaml",
            "nope.yaml: error: cannot read the job file: no such file (looked in /repo)\n1 error\n",
        ),
        (
            "jobs/nope.yaml",
            "jobs/nope.yaml: error: cannot read the job file: no such file (looked in /repo/jobs)\n1 error\n",
        ),
        (
            "/nope.yaml",
            "/nope.yaml: error: cannot read the job file: no such file\n1 error\n",
        ),
        (
            "large.yaml",
            "large.yaml: error: the file is larger than 1 MiB\n   help: split it into several jobs, and put long prompts behind `prompt_file`\n1 error\n",
        ),
    ] {
        assert_eq!(said_of(memory.load(name)), said);
    }
}

/// What a job file is made of, so that random files get past the first line.
const PIECES: &[&str] = &[
    "prompts",
    "prompt",
    "max_turns",
    "max_budget_usd",
    "allowed_tools",
    "env",
    "set",
    "checks",
    "id",
    "Read",
    "\"Bash(ls *)\"",
    "Reed(",
    "1",
    "0.5",
    "lots",
    "~",
    "no",
    ": ",
    ":",
    "- ",
    "\n",
    "\n  ",
    "\n    ",
    "[",
    "]",
    "{",
    "}",
    ", ",
    "\"",
    "'",
    "|\n",
    ">-\n",
    "&a ",
    "*a",
    "!t ",
    "#",
    "<<",
    "---\n",
    "é",
    "\u{85}",
    "\u{2028}",
    "\t",
    "\r\n",
    "{{ env.X }}",
    "\u{feff}",
    "? ",
    "%",
];

/// Where diagnostics point must be in the text that they show.
fn assert_places_exist(text: &str, said: &[Diagnostic]) {
    for diagnostic in said {
        let length = u32::try_from(diagnostic.source.chars().count()).expect("a line");
        assert!(diagnostic.line >= 1, "{diagnostic:?}");
        assert!(
            (1..=length + 1).contains(&diagnostic.column),
            "{diagnostic:?} in {text:?}"
        );
        assert!(
            text.contains(&diagnostic.source),
            "{diagnostic:?} in {text:?}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn any_text_gives_a_job_or_faults_with_places(text in "\\PC{0,200}") {
        let said = Memory::with(text.clone()).load("job.yaml").map_or_else(|f| f, |j| j.warnings);
        assert_places_exist(&text, &said);
    }

    #[test]
    fn any_bytes_give_a_job_or_faults(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let said = Memory::with(bytes).load("job.yaml").map_or_else(|f| f, |j| j.warnings);
        prop_assert!(said.iter().all(|d| d.line >= 1 && d.column >= 1 && d.width >= 1));
    }

    #[test]
    fn any_heap_of_pieces_gives_a_job_or_faults_with_places(
        pieces in prop::collection::vec(prop::sample::select(PIECES), 0..40)
    ) {
        let text = pieces.concat();
        let said = Memory::with(text.clone()).load("job.yaml").map_or_else(|f| f, |j| j.warnings);
        assert_places_exist(&text, &said);
    }
}
