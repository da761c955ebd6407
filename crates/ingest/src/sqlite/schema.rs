//! The columns of a table out of its definition.
//!
//! A definition is the text of a `CREATE TABLE`, with comments and any way of quoting. What matters is the order of the
//! columns and which of them stands for the row number.

/// How the rows of a table are stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// Columns in the order they are stored.
    pub(super) columns: Vec<String>,
    /// Column that is the row number and stored as null.
    pub(super) rowid_alias: Option<usize>,
}

/// Most columns of a table, as in SQLite itself.
const MAX_COLUMNS: usize = 2_000;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token<'s> {
    Word(&'s str),
    /// A name in quotes, which is never a keyword.
    Quoted(String),
    Open,
    Close,
    Comma,
    Other,
}

impl Token<'_> {
    fn is(&self, word: &str) -> bool {
        matches!(self, Self::Word(text) if text.eq_ignore_ascii_case(word))
    }

    fn name(&self) -> Option<String> {
        match self {
            Self::Word(text) => Some((*text).to_string()),
            Self::Quoted(text) => Some(text.clone()),
            _ => None,
        }
    }
}

/// The layout of a table by its definition; `None` for one whose rows are stored in another way.
pub(super) fn layout(sql: &str) -> Option<Layout> {
    let tokens = tokens(sql);
    let open = tokens.iter().position(|token| *token == Token::Open)?;
    if tokens[..open].iter().any(|token| token.is("VIRTUAL")) {
        return None;
    }
    let mut definitions: Vec<Vec<Token<'_>>> = vec![Vec::new()];
    let mut depth = 1;
    let mut end = tokens.len();
    for (at, token) in tokens.iter().enumerate().skip(open + 1) {
        match token {
            Token::Open => depth += 1,
            Token::Close => depth -= 1,
            Token::Comma if depth == 1 => definitions.push(Vec::new()),
            _ => {}
        }
        if depth == 0 {
            end = at;
            break;
        }
        if !(depth == 1 && *token == Token::Comma) {
            definitions.last_mut()?.push(token.clone());
        }
    }
    if tokens[end.min(tokens.len())..].iter().any(|token| token.is("WITHOUT")) {
        return None;
    }
    of_definitions(&definitions)
}

fn of_definitions(definitions: &[Vec<Token<'_>>]) -> Option<Layout> {
    const CONSTRAINTS: [&str; 5] = ["CONSTRAINT", "PRIMARY", "UNIQUE", "CHECK", "FOREIGN"];
    let mut layout = Layout { columns: Vec::new(), rowid_alias: None };
    let mut integers = Vec::new();
    let mut key = None;
    for definition in definitions {
        let Some(first) = definition.first() else { continue };
        if CONSTRAINTS.iter().any(|word| first.is(word)) {
            key = key.or_else(|| single_key(definition));
            continue;
        }
        // The value of a generated column may not be stored, so that nothing behind it stands where it seems to.
        if definition.iter().any(|token| token.is("GENERATED") || token.is("AS")) || layout.columns.len() >= MAX_COLUMNS {
            return None;
        }
        let is_integer = definition.get(1).is_some_and(|kind| kind.is("INTEGER"));
        let is_key = definition.windows(2).any(|pair| pair[0].is("PRIMARY") && pair[1].is("KEY"));
        let is_descending = definition.iter().any(|token| token.is("DESC"));
        if is_integer && is_key && !is_descending {
            layout.rowid_alias = Some(layout.columns.len());
        }
        if is_integer {
            integers.push(layout.columns.len());
        }
        layout.columns.push(first.name()?);
    }
    if let Some(key) = key {
        let at = layout.columns.iter().position(|column| column.eq_ignore_ascii_case(&key));
        layout.rowid_alias = layout.rowid_alias.or(at.filter(|at| integers.contains(at)));
    }
    (!layout.columns.is_empty()).then_some(layout)
}

/// The column of `PRIMARY KEY (column)`.
fn single_key(definition: &[Token<'_>]) -> Option<String> {
    let at = definition.windows(2).position(|pair| pair[0].is("PRIMARY") && pair[1].is("KEY"))?;
    match &definition[at + 2..] {
        [Token::Open, column, Token::Close, ..] => column.name(),
        _ => None,
    }
}

fn tokens(sql: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut rest = sql;
    while let Some(first) = rest.chars().next() {
        let (token, length) = match first {
            '(' => (Some(Token::Open), 1),
            ')' => (Some(Token::Close), 1),
            ',' => (Some(Token::Comma), 1),
            '"' | '`' | '\'' => quoted(rest, first),
            '[' => quoted(rest, ']'),
            '-' if rest.starts_with("--") => (None, rest.find('\n').map_or(rest.len(), |at| at + 1)),
            '/' if rest.starts_with("/*") => (None, rest.find("*/").map_or(rest.len(), |at| at + 2)),
            _ if is_part_of_word(first) => {
                let end = rest.find(|next: char| !is_part_of_word(next)).unwrap_or(rest.len());
                (Some(Token::Word(&rest[..end])), end)
            }
            _ if first.is_whitespace() => (None, first.len_utf8()),
            _ => (Some(Token::Other), first.len_utf8()),
        };
        tokens.extend(token);
        rest = &rest[length..];
    }
    tokens
}

fn is_part_of_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_' || letter == '$' || !letter.is_ascii()
}

/// A quoted name and its length with the quotes; a doubled quote stands for itself.
fn quoted(text: &str, close: char) -> (Option<Token<'_>>, usize) {
    let mut name = String::new();
    let mut letters = text.char_indices().skip(1).peekable();
    while let Some((at, letter)) = letters.next() {
        if letter != close {
            name.push(letter);
        } else if close != ']' && letters.peek().is_some_and(|(_, next)| *next == close) {
            name.push(close);
            letters.next();
        } else {
            return (Some(Token::Quoted(name)), at + 1);
        }
    }
    (Some(Token::Quoted(name)), text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_found_behind_comments_and_quotes() {
        let sql = "CREATE TABLE T (\n  start INTEGER NOT NULL, -- Start, in (ns).\n  \"end\" INTEGER, /* , x */ [a b] TEXT DEFAULT 'x,(y',\n\
                   c NUMERIC(10, 2) CHECK (c > 0, 1), id INTEGER PRIMARY KEY, UNIQUE (start, \"end\"))";
        let layout = layout(sql).unwrap();
        assert_eq!(layout.columns, ["start", "end", "a b", "c", "id"]);
        assert_eq!(layout.rowid_alias, Some(4));
    }

    #[test]
    fn the_row_number_is_found_however_it_is_declared() {
        let alias = |sql: &str| layout(sql).map(|layout| layout.rowid_alias);
        assert_eq!(alias("CREATE TABLE t(a TEXT, b INTEGER, PRIMARY KEY(b))"), Some(Some(1)));
        assert_eq!(alias("CREATE TABLE t(a INT PRIMARY KEY)"), Some(None));
        assert_eq!(alias("CREATE TABLE t(a INTEGER PRIMARY KEY DESC)"), Some(None));
        assert_eq!(alias("CREATE TABLE t(a INTEGER, b INTEGER, PRIMARY KEY(a, b))"), Some(None));
        assert_eq!(alias("CREATE TABLE t(a INTEGER PRIMARY KEY) WITHOUT ROWID"), None);
        assert_eq!(alias("CREATE VIRTUAL TABLE t USING fts5(a)"), None);
        assert_eq!(alias("CREATE TABLE t(a, b GENERATED ALWAYS AS (a+1))"), None);
        assert_eq!(alias("CREATE TABLE t"), None);
    }
}
