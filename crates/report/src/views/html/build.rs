//! Markup that can only be built escaped.

use crate::{clean, phrases, wrap};

/// Characters of one string on the page.
const LIMIT: usize = 600;

/// A piece of markup in which everything from outside is escaped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Html(String);

impl Html {
    /// Markup written by us.
    pub(super) fn markup(markup: &'static str) -> Self {
        Self(markup.to_owned())
    }

    /// Markup built by us around figures: whoever calls this passes numbers and constants only.
    pub(super) fn figures(markup: String) -> Self {
        Self(markup)
    }

    /// A string from outside: cleaned, shortened, escaped; figures keep their units, arrows become one sign.
    pub(super) fn text(text: &str) -> Self {
        Self(escape(&wrap::glue(&clean::short(text, LIMIT)).replace("->", "→")))
    }

    /// Several pieces after one another.
    pub(super) fn join(pieces: impl IntoIterator<Item = Self>) -> Self {
        Self(pieces.into_iter().map(|piece| piece.0).collect())
    }

    /// Whether there is anything.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The markup.
    #[cfg(test)]
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

/// An attribute's value from outside.
pub(super) fn attribute(text: &str) -> String {
    escape(&clean::short(text, LIMIT))
}

fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for sign in text.chars() {
        match sign {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            _ => escaped.push(sign),
        }
    }
    escaped
}

/// `<tag class="class">inner</tag>`.
pub(super) fn element(tag: &'static str, class: &'static str, inner: &Html) -> Html {
    let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
    Html(format!("<{tag}{class}>{}</{tag}>", inner.0))
}

/// The same around a string from outside; nothing where it is empty.
pub(super) fn text_element(tag: &'static str, class: &'static str, text: &str) -> Html {
    match Html::text(text) {
        inner if inner.is_empty() => Html::default(),
        inner => element(tag, class, &inner),
    }
}

/// A name, a setting or a flag.
pub(super) fn code(text: &str) -> Html {
    text_element("code", "", text)
}

/// A command to copy, in full.
pub(super) fn command(text: &str) -> Html {
    let cleaned = clean::line(text);
    if cleaned.is_empty() { Html::default() } else { Html(format!("<pre><code>{}</code></pre>", escape(&cleaned))) }
}

/// A section with its heading; nothing where it would be empty.
pub(super) fn section(heading: &str, aside: &str, inner: &Html) -> Html {
    if inner.is_empty() {
        return Html::default();
    }
    let heading = Html::join([Html::text(heading), text_element("small", "", aside)]);
    element("section", "", &Html::join([element("h2", "", &heading), inner.clone()]))
}

/// A table; nothing where it has no rows. A column whose name ends in `>` holds figures, one that ends in `=` figures at the left.
pub(super) fn table(head: &[&str], rows: Vec<Vec<Html>>) -> Html {
    tabular("", head, rows)
}

/// A table that becomes one paragraph per row where the page is narrow: for rows with a sentence in them.
pub(super) fn stacking(head: &[&str], rows: Vec<Vec<Html>>) -> Html {
    tabular("stack", head, rows)
}

fn tabular(class: &'static str, head: &[&str], rows: Vec<Vec<Html>>) -> Html {
    if rows.is_empty() {
        return Html::default();
    }
    let class_of = |at: usize| match head.get(at).and_then(|name| name.chars().last()) {
        Some('>') => "n",
        Some('=') => "f",
        _ => "",
    };
    let name_of = |at: usize| head.get(at).map_or("", |name| name.trim_end_matches([' ', '>', '=']));
    let names = (0..head.len()).map(|at| element("th", class_of(at), &Html::text(name_of(at))));
    let head_row = element("thead", "", &element("tr", "", &Html::join(names)));
    let more = rows.len().saturating_sub(phrases::ROW_LIMIT);
    let rows = rows.into_iter().take(phrases::ROW_LIMIT).map(|row| {
        let cells = row.into_iter().enumerate().map(|(at, cell)| {
            let label = if class == "stack" && at > 0 { name_of(at) } else { "" };
            Html(format!("<td class=\"{}\" data-label=\"{}\">{}</td>", class_of(at), attribute(label), cell.0))
        });
        element("tr", "", &Html::join(cells))
    });
    let body = element("tbody", "", &Html::join(rows));
    let table = element("table", class, &Html::join([head_row, body]));
    element("div", "scroll", &Html::join([table, text_element("p", "aside", &phrases::more_rows(more))]))
}

/// A list of a name and its text; pairs with an empty text are left out.
pub(super) fn pairs(class: &'static str, pairs: &[(&'static str, Html)]) -> Html {
    let shown = pairs.iter().filter(|(_, text)| !text.is_empty()).map(|(name, text)| {
        let name = element("dt", "", &Html::markup(name));
        element("div", "", &Html::join([name, element("dd", "", text)]))
    });
    let inner = Html::join(shown);
    if inner.is_empty() { inner } else { element("dl", class, &inner) }
}

/// How every page begins: the generator tells it from other people's pages.
pub(super) const PAGE_HEAD: &str =
    "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"generator\" content=\"inferoscope\">\n";

/// The whole document.
pub(super) fn page(title: &str, body: &Html) -> String {
    format!(
        "{PAGE_HEAD}<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <title>{}</title>\n<style>\n{}</style>\n</head>\n<body>\n{}\n</body>\n</html>\n",
        Html::text(title).0,
        include_str!("page.css"),
        body.0
    )
}
