//! Judging what the file tools would touch.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::decide::{Access, Place, Policy, Resolved, Verdict};
use super::path::{is_plain, specifier_for};
use super::protected::{forbidden, opens, protected};
use super::rule::{Rule, Specifier};
use super::tool::ToolName;

/// Why nothing is written to a sealed place.
pub(super) fn sealed_reason(place: &Path) -> String {
    format!(
        "`{}` belongs to the record of runs, which no rule opens for writing",
        place.display()
    )
}

impl Policy {
    /// Judges one access of a tool to a path.
    pub(super) fn judge_path(&self, tool: &ToolName, access: Access, path: &Resolved) -> Verdict {
        let shown = self.shown(path);
        if !path.both().into_iter().all(is_plain) {
            return Verdict::denied(format!("{shown} is no resolved path"), None);
        }
        let is_search = access == Access::Search;
        if let Some(rule) = self.path_denial(tool, path, is_search) {
            return Verdict::denied_by(rule, shown);
        }
        if *tool == ToolName::Read
            && let Some(verdict) = self.readable(path)
        {
            return verdict;
        }
        if let Some(why) = path
            .both()
            .into_iter()
            .find_map(|path| forbidden(path, &self.roots))
        {
            return Verdict::denied(format!("{shown} cannot be opened: {why}"), None);
        }
        if access == Access::Write
            && let Some(place) = path.both().into_iter().find_map(|path| self.sealed(path))
        {
            return Verdict::denied(
                format!("{shown} cannot be written: {}", sealed_reason(place)),
                None,
            );
        }
        if access == Access::Write
            && let Some(verdict) = self.protected_denial(tool, path, &shown)
        {
            return verdict;
        }
        let covering = |path: &Path| {
            self.rules_allowing(tool).find(|rule| {
                if is_search {
                    self.covers_search(rule, path)
                } else {
                    self.covers(rule, path)
                }
            })
        };
        match path.both().map(covering) {
            [Some(rule), Some(_)] => Verdict::allowed_by(rule),
            [Some(rule), None] => Verdict::denied(
                format!(
                    "{shown} leads through a link to `{}`, which no rule allows (`{}` at {} allows \
                     the link alone)",
                    path.real.display(),
                    rule.text(),
                    rule.place()
                ),
                None,
            ),
            [None, _] => Verdict::denied(
                format!("no rule allows {tool} on {shown}"),
                self.would_allow(tool, access, path),
            ),
        }
    }

    /// The path as a person would name it.
    fn shown(&self, path: &Resolved) -> String {
        let shown = match path.written.strip_prefix(&self.roots.workspace) {
            Ok(rest) if rest.as_os_str().is_empty() => Path::new("."),
            Ok(rest) => rest,
            Err(_) => &path.written,
        };
        format!("`{}`", shown.display())
    }

    /// A deny rule that holds for a path: one of the tool, or of Read, whose denials bind all tools.
    fn path_denial(&self, tool: &ToolName, path: &Resolved, is_directory: bool) -> Option<&Rule> {
        self.deny
            .iter()
            .filter(|rule| *rule.tool() == ToolName::Read || rule.tool().is_one_class_with(tool))
            .find(|rule| self.rule_denies(rule, path, is_directory))
    }

    pub(super) fn rule_denies(&self, rule: &Rule, path: &Resolved, is_directory: bool) -> bool {
        rule.path().is_some_and(|pattern| {
            path.both().into_iter().any(|path| {
                if is_directory {
                    pattern.denies_directory(path, &self.roots)
                } else {
                    pattern.denies(path, &self.roots)
                }
            })
        })
    }

    fn readable(&self, path: &Resolved) -> Option<Verdict> {
        let directory = self.roots.readable.iter().find(|directory| {
            path.both()
                .into_iter()
                .all(|path| path.starts_with(directory))
        })?;
        Some(Verdict::Allowed {
            rule: "Read".to_owned(),
            place: Place {
                file: Arc::from("built in"),
                line: 1,
                column: 1,
            },
            notes: Vec::new(),
            reason: format!(
                "results of this run below `{}` may be read without a rule",
                directory.display()
            ),
        })
    }

    fn protected_denial(&self, tool: &ToolName, path: &Resolved, shown: &str) -> Option<Verdict> {
        let part = path
            .both()
            .into_iter()
            .find_map(|path| self.closed_part(tool, path))?;
        Some(Verdict::denied(
            format!(
                "{shown} is protected (`{}` decides what programs do later): only a rule that spells \
                 the path up to there allows it",
                part.display()
            ),
            self.would_allow(tool, Access::Write, path),
        ))
    }

    /// The sealed place that a path is or lies in.
    pub(super) fn sealed(&self, path: &Path) -> Option<&Path> {
        let mut places = self.roots.sealed.iter();
        places
            .find(|place| path.starts_with(place))
            .map(PathBuf::as_path)
    }

    /// The protected part of a path that no allow rule opens.
    pub(super) fn closed_part(&self, tool: &ToolName, path: &Path) -> Option<PathBuf> {
        let part = protected(path, &self.roots)?;
        let is_open = self.rules_allowing(tool).any(|rule| {
            rule.path().is_some_and(|pattern| {
                pattern.allows(path, &self.roots)
                    && pattern.literal_part(&self.roots).is_some_and(|literal| {
                        opens(&literal, pattern.is_bare_name(), path, &self.roots)
                    })
            })
        });
        (!is_open).then_some(part)
    }

    /// Whether an allow rule covers a file.
    fn covers(&self, rule: &Rule, path: &Path) -> bool {
        match rule.specifier() {
            Specifier::Any => self.roots.holds(path),
            Specifier::Path(pattern) => pattern.allows(path, &self.roots),
            Specifier::Command(_) | Specifier::Unread => false,
        }
    }

    /// Whether an allow rule lets a tool look around in a directory; each file is judged again.
    fn covers_search(&self, rule: &Rule, directory: &Path) -> bool {
        if self.roots.holds(directory) {
            return true;
        }
        match rule.specifier() {
            Specifier::Path(pattern) if pattern.is_outside() => pattern
                .literal_part(&self.roots)
                .is_some_and(|literal| directory.starts_with(literal)),
            Specifier::Path(_) | Specifier::Any | Specifier::Command(_) | Specifier::Unread => {
                false
            }
        }
    }

    /// Whether Glob or Grep may show a file.
    pub(super) fn may_see(&self, tool: &ToolName, path: &Resolved) -> bool {
        path.both().into_iter().all(is_plain)
            && self.path_denial(tool, path, false).is_none()
            && path.both().into_iter().all(|path| {
                forbidden(path, &self.roots).is_none()
                    && self
                        .rules_allowing(tool)
                        .any(|rule| self.covers(rule, path))
            })
    }

    /// The smallest rule for a path; none where a rule could not help.
    fn would_allow(&self, tool: &ToolName, access: Access, path: &Resolved) -> Option<String> {
        if path.written != path.real {
            return None;
        }
        let is_inside = self.roots.holds(&path.real);
        if access == Access::Search && is_inside {
            return Some(tool.to_string());
        }
        let specifier = specifier_for(&path.written, &self.roots)?;
        Some(match access {
            Access::Search => format!("{tool}({specifier}/**)"),
            Access::Read | Access::Write => format!("{tool}({specifier})"),
        })
    }
}
