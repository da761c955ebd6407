//! The command that starts a server, as typed: variables, program, arguments. No shell reads it.

use ingest::{assignment, command_words, redact_command};

/// Signs that only a shell understands.
const SHELL_SIGNS: &[char] = &['$', '`', '|', '&', ';', '<', '>', '(', ')', '*', '?', '~', '#', '\n'];

/// A command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StartCommand {
    /// Variables that are set for it, in order.
    pub(crate) environment: Vec<(String, String)>,
    /// Program and arguments.
    pub(crate) words: Vec<String>,
}

impl StartCommand {
    /// The same with other words.
    pub(crate) fn with_words(&self, words: Vec<String>) -> Self {
        Self { environment: self.environment.clone(), words }
    }

    /// As a person would type it, secrets redacted.
    pub(crate) fn shown(&self) -> String {
        let variables = self.environment.iter().map(|(name, value)| format!("{name}={value}"));
        redact_command(&variables.chain(self.words.iter().cloned()).collect::<Vec<_>>())
    }
}

/// Reads a command line; what needs a shell is refused.
pub(crate) fn parse(line: &str) -> Result<StartCommand, String> {
    if let Some(sign) = shell_sign(line) {
        return Err(format!(
            "`{sign}` needs a shell, and none reads this; quote it, or put the command into a script that ends in `exec vllm serve ... \"$@\"` and name that"
        ));
    }
    let words = command_words(line);
    let count = words.iter().take_while(|word| assignment(word).is_some()).count();
    let environment = words[..count].iter().filter_map(|word| assignment(word)).map(|(name, value)| (name.into(), value.into())).collect();
    let words = words[count..].to_vec();
    if words.is_empty() {
        return Err("expected a program and its arguments, found none".into());
    }
    Ok(StartCommand { environment, words })
}

/// The first sign outside quotes that a shell would act on. Within double quotes that is a `$` or a backtick.
fn shell_sign(line: &str) -> Option<char> {
    let mut quote = None;
    let mut signs = line.trim().chars();
    while let Some(sign) = signs.next() {
        match (quote, sign) {
            (Some(open), sign) if open == sign => quote = None,
            (None, '\'' | '"') => quote = Some(sign),
            (None | Some('"'), '\\') => drop(signs.next()),
            (Some('"'), '$' | '`') => return Some(sign),
            (None, sign) if SHELL_SIGNS.contains(&sign) => return Some(sign),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_and_words_are_told_apart() {
        let read = parse(r#"A=1 B='x y' vllm serve m --cfg '{"a": 1}' C=2"#).unwrap();
        assert_eq!(read.environment, [("A".into(), "1".into()), ("B".into(), "x y".into())]);
        assert_eq!(read.words, ["vllm", "serve", "m", "--cfg", r#"{"a": 1}"#, "C=2"]);
        assert_eq!(parse("vllm serve --api-key abc").unwrap().shown(), "vllm serve --api-key <redacted>");
    }

    #[test]
    fn what_needs_a_shell_is_refused() {
        for line in ["a | b", "a && b", "a > log", "a $HOME", "~/bin/a", "a \"$X\"", "a; b", "a\nb", "", "A=1"] {
            assert!(parse(line).is_err(), "{line}");
        }
        for line in ["a '$x|y'", r"a \$x", "a \"b c\"", "a 'it''s'"] {
            assert!(parse(line).is_ok(), "{line}");
        }
    }
}
