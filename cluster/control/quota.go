package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/phos-gpu/phos/cluster/launch"
	"github.com/phos-gpu/phos/cluster/record"
	"github.com/phos-gpu/phos/cluster/store"
	"github.com/phos-gpu/phos/internal/words"
)

// ErrOverQuota means that an account would use more than its quota allows.
var ErrOverQuota = errors.New("over quota")

// quotas are the limits of accounts, and what waits because of them. A part whose account has all
// its GPUs is held: the scheduler learns of it when it may start, so that it holds up no other.
type quotas struct {
	record.Quotas
	revision store.Revision
	changed  bool
	held     map[*part]struct{}
	// stale means that held parts may be within the quota now.
	stale bool
	// uploads is the code that accounts have sent and not launched, by account.
	uploads map[string]*uploads
}

// uploads is the code that one account has sent and not launched.
type uploads struct {
	record.Uploads
	revision store.Revision
	changed  bool
}

// maxUploads is how many pieces of code an account with a quota may have sent and not launched.
const maxUploads = 1000

// loadQuotas reads the quotas; without a record there are none.
func (l *Leader) loadQuotas(ctx context.Context) error {
	l.quotas = quotas{revision: store.New, held: map[*part]struct{}{}, uploads: map[string]*uploads{}}
	kept, err := list(ctx, l.store, record.UploadsPrefix, record.DecodeUploads)
	if err != nil {
		return err
	}
	for _, each := range kept {
		l.quotas.uploads[each.Value.Account] = &uploads{Uploads: each.Value, revision: each.Revision}
	}
	object, err := l.store.Get(ctx, record.QuotasKey)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	l.quotas.revision = object.Revision
	l.quotas.Quotas, err = record.DecodeQuotas(object.Value)
	return err
}

// Use is what the launches of an account use of its quota.
type Use struct {
	GPUs, Launches, CodeBytes uint64
	// code is the packed code by its hash.
	code map[string]uint64
	// users are the launches that have GPUs, or wait for some with the account's turn.
	users []*entry
}

// use returns what an account uses.
func (l *Leader) use(account string) Use {
	u := Use{code: map[string]uint64{}}
	if sent := l.quotas.uploads[account]; sent != nil {
		for hash, each := range sent.Code {
			u.code[hash] = each.Bytes
		}
	}
	for _, e := range l.launches {
		if e.Owner != account {
			continue
		}
		if e.State.Phase == launch.Waiting || e.State.Phase == launch.Queued {
			u.Launches++
		}
		if e.Code.Hash != "" {
			u.code[e.Code.Hash] = e.Code.Bytes
		}
		before := u.GPUs
		for _, p := range e.parts {
			if _, held := l.quotas.held[p]; !held {
				u.GPUs += p.gpus()
			}
		}
		if u.GPUs > before {
			u.users = append(u.users, e)
		}
	}
	for _, bytes := range u.code {
		u.CodeBytes += bytes
	}
	return u
}

// gpus returns how many GPUs a part has, or wants.
func (p *part) gpus() (sum uint64) {
	if p.assigned != nil {
		for _, a := range p.assigned {
			sum += uint64(len(a.GPUs))
		}
		return sum
	}
	for _, r := range p.need().Replicas {
		sum += uint64(r.GPUs)
	}
	return sum
}

// hold keeps a part from the scheduler if its account has a limit of GPUs, until admitHeld has
// looked at it.
func (l *Leader) hold(p *part) bool {
	if l.quotas.Of(p.entry.Owner).GPUs == nil || p.gpus() == 0 {
		return false
	}
	l.quotas.held[p] = struct{}{}
	l.quotas.stale = true
	return true
}

// admitHeld tells the scheduler of held parts that are within the quota of their account now: the
// more urgent first, then the older. One that waits holds up those after it, unless it is larger
// than the quota itself.
func (l *Leader) admitHeld() {
	if !l.quotas.stale {
		return
	}
	l.quotas.stale = false
	waits := map[string]bool{}
	uses := map[string]*Use{}
	for _, p := range l.heldParts() {
		account := p.entry.Owner
		limit := l.quotas.Of(account).GPUs
		if uses[account] == nil {
			u := l.use(account)
			uses[account] = &u
		}
		switch wanted := p.gpus(); {
		case limit.Exceeded(wanted):
		case waits[account] || limit.Exceeded(uses[account].GPUs+wanted):
			waits[account] = true
		default:
			uses[account].GPUs += wanted
			delete(l.quotas.held, p)
			p.queue.submit(p)
		}
	}
	l.refuseHeld()
}

// heldParts returns the held parts in the order in which they are looked at.
func (l *Leader) heldParts() []*part {
	return slices.SortedFunc(maps.Keys(l.quotas.held), func(a, b *part) int {
		return cmp.Or(
			cmp.Compare(b.entry.State.Spec.Priority, a.entry.State.Spec.Priority),
			cmp.Compare(a.entry.Number, b.entry.Number), cmp.Compare(a.replicas[0], b.replicas[0]),
		)
	})
}

// refuseHeld ends held launches that do not want to wait.
func (l *Leader) refuseHeld() {
	for p := range l.quotas.held {
		if p.entry.State.Spec.Queue == launch.Refuse && p.entry.State.Phase == launch.Queued {
			reason := l.heldReason(p)
			l.then(func() {
				l.turns.Add(func() {
					if _, held := l.quotas.held[p]; held && p.entry.State.Phase == launch.Queued {
						l.mustApply(p.entry, launch.NoRoom{Missing: reason})
					}
				})
			})
		}
	}
}

// heldReason says why a part is held.
func (l *Leader) heldReason(p *part) string {
	account, limit := p.entry.Owner, l.quotas.Of(p.entry.Owner).GPUs
	if limit == nil {
		return "its account has no limit now: it is being queued"
	}
	if limit.Exceeded(p.gpus()) {
		return fmt.Sprintf("over quota: it needs %d GPUs at once, and %s may have %d: an administrator can raise that (phos quota set %s)",
			p.gpus(), account, *limit, account)
	}
	u := l.use(account)
	if !limit.Exceeded(u.GPUs + p.gpus()) {
		return fmt.Sprintf("over quota: an earlier launch of %s waits for its turn with %d GPUs at most", account, *limit)
	}
	return fmt.Sprintf("over quota: %d of %d GPUs used by %s with this launch; %s have %d, or wait for them",
		u.GPUs+p.gpus(), *limit, account, listed(u.users), u.GPUs)
}

// maxListed is how many launches a reason names.
const maxListed = 5

// listed names some launches, the oldest first.
func listed(entries []*entry) string {
	slices.SortFunc(entries, func(a, b *entry) int { return a.Number - b.Number })
	var labels []string
	for _, e := range entries[:min(maxListed, len(entries))] {
		labels = append(labels, e.Label())
	}
	text := "launches " + strings.Join(labels, ", ")
	if more := len(entries) - maxListed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// checkQuota refuses launches that are more than the quota of their account allows, or could never
// start.
func (l *Leader) checkQuota(s Submission, specs []launch.Spec) error {
	limits := l.quotas.Of(s.Owner)
	for _, spec := range specs {
		state := launch.New(spec)
		state.Phase = launch.Queued
		least := (&part{entry: &entry{Launch: record.Launch{State: state}}, replicas: state.Pending().Together}).gpus()
		if limits.GPUs.Exceeded(least) {
			return fmt.Errorf("%w: the launch needs %d GPUs at once, and %s may have %d: ask for fewer, or an administrator for more",
				ErrOverQuota, least, s.Owner, *limits.GPUs)
		}
	}
	if limits.Launches == nil && limits.CodeBytes == nil {
		return nil
	}
	u := l.use(s.Owner)
	if more := uint64(len(specs)); limits.Launches.Exceeded(u.Launches + more) {
		return fmt.Errorf("%w: %d launches of %s wait, %d more are asked for, and %d may wait: stop some, or try again later",
			ErrOverQuota, u.Launches, s.Owner, more, *limits.Launches)
	}
	return l.checkCode(s.Owner, s.Code, u)
}

// checkCode refuses code that is more than the quota of its account allows.
func (l *Leader) checkCode(account string, code record.Code, u Use) error {
	limit := l.quotas.Of(account).CodeBytes
	if _, counted := u.code[code.Hash]; counted || code.Hash == "" || !limit.Exceeded(u.CodeBytes+code.Bytes) {
		return nil
	}
	return fmt.Errorf("%w: the code has %s, %s has %s of code here already, and may have %s; code is kept until %s after the end "+
		"of its launches: send less (.phosignore), or ask an administrator for more", ErrOverQuota, words.Bytes(code.Bytes),
		account, words.Bytes(u.CodeBytes), words.Bytes(uint64(*limit)), l.settings.KeepEnded)
}

// AdmitCode notes that an account sends code. It is refused if it is more than the account's quota
// allows. noted reports whether it counts from now on, and did not before.
func (t Turn) AdmitCode(account string, code record.Code) (noted bool, err error) {
	l := t.leader
	if l.quotas.Of(account).CodeBytes == nil {
		return false, nil
	}
	u := l.use(account)
	if err := l.checkCode(account, code, u); err != nil {
		return false, err
	}
	if _, counted := u.code[code.Hash]; counted {
		return false, nil
	}
	sent := l.quotas.uploads[account]
	if sent == nil {
		sent = &uploads{Uploads: record.Uploads{Account: account, Code: map[string]record.Upload{}}, revision: store.New}
		l.quotas.uploads[account] = sent
	}
	if len(sent.Code) == maxUploads {
		return false, fmt.Errorf("%w: %s has sent code %d times and not launched it: launch some of it, or try again in %s",
			ErrOverQuota, account, maxUploads, l.settings.KeepEnded)
	}
	sent.Code[code.Hash] = record.Upload{Bytes: code.Bytes, Sent: l.clock.Wall()}
	sent.changed = true
	return true, nil
}

// ForgetCode takes AdmitCode back: the code has not arrived.
func (t Turn) ForgetCode(account string, code record.Code) { t.leader.quotas.launched(account, code) }

// launched notes that code counts no longer because it was sent.
func (q *quotas) launched(account string, code record.Code) {
	if sent := q.uploads[account]; sent != nil {
		if _, counted := sent.Code[code.Hash]; counted {
			delete(sent.Code, code.Hash)
			sent.changed = true
		}
	}
}

// forgetUploads forgets code that was sent before a time.
func (q *quotas) forgetUploads(before time.Time) {
	for _, sent := range q.uploads {
		for hash, each := range sent.Code {
			if each.Sent.Before(before) {
				delete(sent.Code, hash)
				sent.changed = true
			}
		}
	}
}

// write puts what has changed into the store.
func (q *quotas) write(ctx context.Context, l *Leader) error {
	if q.changed {
		if err := l.records.Put(ctx, record.QuotasKey, q.Encode(), &q.revision); err != nil {
			return err
		}
		q.changed = false
	}
	for account, sent := range q.uploads {
		if !sent.changed {
			continue
		}
		if err := l.records.Put(ctx, record.UploadsKey(account), sent.Encode(), &sent.revision); err != nil {
			return err
		}
		sent.changed = false
	}
	return nil
}

// Quotas returns the quotas.
func (t Turn) Quotas() record.Quotas {
	q := t.leader.quotas.Quotas
	q.Accounts = maps.Clone(q.Accounts)
	return q
}

// Use returns what an account uses of its quota.
func (t Turn) Use(account string) Use { return t.leader.use(account) }

// Owners returns the accounts that have launches.
func (t Turn) Owners() map[string]bool {
	found := map[string]bool{}
	for _, e := range t.leader.launches {
		found[e.Owner] = true
	}
	return found
}

// SetQuotas changes the quotas. What runs is not touched.
func (t Turn) SetQuotas(q record.Quotas, by string) {
	l := t.leader
	l.quotas.Quotas, l.quotas.changed = q, true
	l.log.Info("quotas changed", "by", by)
	for _, e := range l.launches {
		for _, p := range e.parts {
			if _, held := l.quotas.held[p]; !held && p.assigned == nil && l.hold(p) {
				p.tooLarge = false
				p.queue.drop(p)
			}
		}
	}
	l.quotas.stale = true
}
