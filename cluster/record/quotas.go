package record

import (
	"fmt"
	"maps"
)

// QuotasKey is the one object with the quotas of all accounts.
const QuotasKey = "quotas"

// Quotas limit what launches of accounts may use.
type Quotas struct {
	// Default is for all accounts, as far as they have no limits of their own.
	Default  Quota            `json:"default"`
	Accounts map[string]Quota `json:"accounts,omitempty"`
}

// Quota are the limits of one account. One that is nil is that of the default, and of the default
// no limit.
type Quota struct {
	// GPUs are those that launches have at once, or wait for with the account's turn.
	GPUs *Limit `json:"gpus,omitempty"`
	// Launches are those that wait.
	Launches *Limit `json:"launches,omitempty"`
	// CodeBytes is the packed code that is kept for launches.
	CodeBytes *Limit `json:"code_bytes,omitempty"`
}

// Limit is the most of something.
type Limit int64

// NoLimit means that there is no limit, though the default has one.
const NoLimit Limit = -1

// Of returns the limits that count for an account; nil: there is none.
func (q *Quotas) Of(account string) Quota {
	own := q.Accounts[account]
	return Quota{
		GPUs:      limitOf(own.GPUs, q.Default.GPUs),
		Launches:  limitOf(own.Launches, q.Default.Launches),
		CodeBytes: limitOf(own.CodeBytes, q.Default.CodeBytes),
	}
}

// limitOf returns the limit that counts.
func limitOf(own, usual *Limit) *Limit {
	if own == nil {
		own = usual
	}
	if own == nil || *own == NoLimit {
		return nil
	}
	return own
}

// Exceeded reports whether an amount is more than a limit allows.
func (l *Limit) Exceeded(by uint64) bool { return l != nil && by > uint64(*l) }

// quotasVersion is the version that Encode writes.
const quotasVersion = 1

// Encode returns the value for the store.
func (q *Quotas) Encode() []byte { return encode("quotas", quotasVersion, q) }

// DecodeQuotas reads a value of the store.
func DecodeQuotas(text []byte) (Quotas, error) {
	var q Quotas
	if err := decode(text, "quotas", quotasVersion, &q); err != nil {
		return Quotas{}, err
	}
	all := maps.Clone(q.Accounts)
	if all == nil {
		all = map[string]Quota{}
	}
	all["the default"] = q.Default
	for account, each := range all {
		for _, limit := range []*Limit{each.GPUs, each.Launches, each.CodeBytes} {
			if limit != nil && *limit < NoLimit {
				return Quotas{}, fmt.Errorf("quota of %.40q: %w: a limit of %d", account, ErrDamaged, *limit)
			}
		}
	}
	return q, nil
}
