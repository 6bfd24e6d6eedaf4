#!/bin/sh
# The agent of the demo and of the pictures. It knows a handful of goals, and reports as Claude Code does.
cat > /dev/null

say() { printf '{"type":"assistant","message":{"content":[{"type":"text","text":"%s"}]}}\n' "$1"; }
call() { printf '{"type":"assistant","message":{"content":[{"type":"tool_use","id":"%s","name":"%s","input":{"%s":"%s"}}]}}\n' "$1$3" "$1" "$2" "$3"; }
finish() {
    printf '{"type":"result","subtype":"success","is_error":false,"result":"%s","session_id":"shop","total_cost_usd":%s,"usage":{"input_tokens":%s,"output_tokens":%s}}\n' "$@"
    exit
}

# Takes ten minutes, so that there is somebody to watch. Ends sooner if this file is removed.
work_on() {
    for _ in $(seq 600); do
        [ -e "$0" ] || exit
        sleep 1
    done
}

printf '{"type":"system","subtype":"init","session_id":"shop"}\n'
# Whatever is sent back to it.
if [ -n "$(git status --porcelain)" ]; then
    printf 'Revised on request.\n' >> NOTES.md
    call Write file_path NOTES.md
    finish "I took a note of your feedback in NOTES.md. A script cannot do more." 0.01 2000 60
fi
case $PLANWRIGHT_GOAL in
"Fix the flaky retry test")
    say "The test compares wall-clock time. I will count the calls instead."
    call Read file_path tests/retry.rs
    sed -i '/Instant/d; /elapsed/d' tests/retry.rs
    sed -i '/./,$!d' tests/retry.rs
    sed -i 's/    assert!(is_sent);/&\n    assert_eq!(calls, 3);/' tests/retry.rs
    call Edit file_path tests/retry.rs
    call Bash command "cargo test --test retry"
    finish "The test counts calls now and no longer depends on the clock." 0.04 8200 640
    ;;
"Round tax half up")
    sed -i 's/rounded down/rounded half up/; s|net \* percent / 100|(net * percent + 50) / 100|' src/billing.rs
    sed -i 's/tax_is_rounded_down/tax_is_rounded_half_up/; s/, 37)/, 38)/' tests/billing.rs
    call Edit file_path src/billing.rs
    finish "Tax is rounded half up, and the test expects it." 0.03 5100 410
    ;;
"Round tax up")
    sed -i 's/rounded down/rounded up/; s|net \* percent / 100|(net * percent).div_ceil(100)|' src/billing.rs
    call Edit file_path src/billing.rs
    finish "Tax is rounded up." 0.02 3300 190
    ;;
"Publish the prices")
    call Read file_path src/billing.rs
    printf '{"type":"result","subtype":"error_during_execution","is_error":true,"result":"The price list is private: I found nothing that may be published.","session_id":"shop","total_cost_usd":0.01,"usage":{"input_tokens":2100,"output_tokens":90}}\n'
    exit 1
    ;;
"Wait longer between retries")
    say "The provider allows one request per second."
    call Read file_path src/retry.rs
    sed -i 's/from_millis(100)/from_secs(1)/' src/retry.rs
    call Edit file_path src/retry.rs
    call Bash command "cargo test"
    finish "Retries are one second apart, as the provider asks." 0.02 4100 230
    ;;
"Split billing.rs: invoices and tax")
    say "Tax rules change every year, so they get a module of their own."
    call Read file_path src/billing.rs
    cat > src/tax.rs <<'RUST'
//! Tax rates and how they are rounded.

/// A rate in percent.
#[derive(Clone, Copy)]
pub struct TaxRate(pub u64);

impl TaxRate {
    /// Tax on an amount, rounded half up.
    pub fn of(self, net: u64) -> u64 {
        (net * self.0 + 50) / 100
    }
}
RUST
    sed -i '/^\/\/\/ Tax on an amount/,/^}/d' src/billing.rs
    sed -i 's|, and the tax on it\.|.\n\nuse crate::tax::TaxRate;|; s/percent: u64/rate: TaxRate/; s/net + tax(net, percent)/net + rate.of(net)/; s/(items, percent)/(items, rate)/' src/billing.rs
    cat -s src/billing.rs > billing.tmp && mv billing.tmp src/billing.rs
    echo 'pub mod tax;' >> src/lib.rs
    sed -i 's/{Item, gross_total, tax}/{Item, gross_total}/; s/^use shop::billing.*/&\nuse shop::tax::TaxRate;/; s/tax(199, 19)/TaxRate(19).of(199)/; s/(&items, 10)/(\&items, TaxRate(10))/' tests/billing.rs
    for file in src/tax.rs src/billing.rs src/lib.rs tests/billing.rs; do call Edit file_path $file; done
    call Bash command "cargo test"
    finish "Tax has a module of its own with a type for rates. Callers pass a TaxRate instead of a number; totals are unchanged." 0.11 21400 2350
    ;;
"Upgrade the parser")
    call Bash command "cargo update -p winnow"
    printf '{"outcome":"ask","question":"Version 1 of the parser no longer reads dates without a zone. Read them as UTC, or refuse them?"}' > "$PLANWRIGHT_REPORT"
    ;;
"Read the payment key from the environment")
    printf 'PAYMENT_KEY=change-me\n' > .env
    call Write file_path .env
    finish "The key is read from .env." 0.02 3900 280
    ;;
"Translate the docs into German")
    mkdir -p docs/de
    printf '# Rückerstattungen\n\nEine Rückerstattung geht auf die Karte zurück, mit der bezahlt wurde.\n' > docs/de/refunds.md
    say "I begin with the page on refunds."
    call Write file_path docs/de/refunds.md
    work_on
    finish "The page on refunds is translated." 0.05 6000 400
    ;;
"Translate the docs into French")
    mkdir -p docs/fr
    printf '# Remboursements\n\nUn remboursement est versé sur la carte qui a servi au paiement.\n' > docs/fr/refunds.md
    say "I begin with the page on refunds."
    call Write file_path docs/fr/refunds.md
    work_on
    finish "The page on refunds is translated." 0.05 6000 400
    ;;
"Send invoices as PDF")
    printf '//! Invoices as PDF.\n' > src/pdf.rs
    call Write file_path src/pdf.rs
    finish "There is a place for it now: src/pdf.rs." 0.02 2500 150
    ;;
*)
    printf -- '- a goal of yours\n' >> TODO.md
    call Write file_path TODO.md
    finish "I took a note in TODO.md. I am a script: your own agent does more." 0.01 1800 50
    ;;
esac
