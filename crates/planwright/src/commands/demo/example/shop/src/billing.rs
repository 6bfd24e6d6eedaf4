//! Invoices: what a customer owes, and the tax on it.

/// A line of an invoice, in cents.
pub struct Item {
    pub name: String,
    pub price: u64,
    pub count: u64,
}

/// The sum of all items, without tax.
pub fn net_total(items: &[Item]) -> u64 {
    items.iter().map(|item| item.price * item.count).sum()
}

/// Tax on an amount, rounded down.
pub fn tax(net: u64, percent: u64) -> u64 {
    net * percent / 100
}

/// What the customer pays.
pub fn gross_total(items: &[Item], percent: u64) -> u64 {
    let net = net_total(items);
    net + tax(net, percent)
}

/// The invoice as text, one line per item.
pub fn render(items: &[Item], percent: u64) -> String {
    let mut text = String::new();
    for item in items {
        text += &format!("{} {} x {}\n", item.name, item.count, item.price);
    }
    text + &format!("total {}\n", gross_total(items, percent))
}
