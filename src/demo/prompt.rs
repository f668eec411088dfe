//! Questions as a shopping assistant would put them: a short question after the passages that a search found.

use rand::Rng;

const PRODUCTS: [&str; 8] = [
    "running shoes",
    "a tent",
    "noise cancelling headphones",
    "a coffee grinder",
    "a desk lamp",
    "a rain jacket",
    "a toaster",
    "a bicycle",
];
const WISHES: [&str; 6] =
    ["for a beginner", "under 100 dollars", "as a gift", "for daily use", "that lasts for years", "for a small flat"];
const FACTS: [&str; 8] = [
    "The material is light and dries within an hour after rain.",
    "Customers praise the battery, which lasts for two full days of use.",
    "It comes in four sizes and can be returned within thirty days.",
    "The manual mentions that the cover can be washed at forty degrees.",
    "Compared with last year's model it weighs a third less.",
    "Some reviews mention that the strap is short for tall people.",
    "Delivery takes two days, and spare parts are sold for ten years.",
    "It won the test of a consumer magazine in its price class.",
];

/// What one call asks for.
pub(crate) struct Question {
    /// The instructions and passages that come before the question.
    pub(crate) context: String,
    /// The question.
    pub(crate) text: String,
    /// Passages in the context.
    pub(crate) passages: usize,
    /// Most tokens the answer may have.
    pub(crate) max_tokens: u32,
}

/// Draws a question: 2 to 12 passages, an answer of at most 60 to 320 tokens.
pub(crate) fn draw(rng: &mut impl Rng) -> Question {
    let passages = rng.random_range(2..=12);
    let mut context = "You help customers to choose. Use only these passages.\n".to_owned();
    for number in 1..=passages {
        context.push_str(&format!("[{number}]"));
        for _ in 0..rng.random_range(2..=6) {
            context.push(' ');
            context.push_str(pick(rng, &FACTS));
        }
        context.push('\n');
    }
    let text = format!("Which {} would you choose {}, and why?", pick(rng, &PRODUCTS), pick(rng, &WISHES));
    Question { context, text, passages, max_tokens: rng.random_range(60..=320) }
}

fn pick<'a>(rng: &mut impl Rng, list: &[&'a str]) -> &'a str {
    list[rng.random_range(0..list.len())]
}
