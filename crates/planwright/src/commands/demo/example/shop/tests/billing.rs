use shop::billing::{Item, gross_total, tax};

#[test]
fn tax_is_rounded_down() {
    assert_eq!(tax(199, 19), 37);
}

#[test]
fn gross_is_net_and_tax() {
    let items = [Item { name: "Tea".into(), price: 400, count: 2 }];
    assert_eq!(gross_total(&items, 10), 880);
}
