package control

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/phos-gpu/phos/cluster/launch"
	"github.com/phos-gpu/phos/cluster/record"
)

// limit sets the quota of an account; "" is the default.
func (w *world) limit(account string, q record.Quota) {
	w.Helper()
	w.turn(func(l *Leader) {
		quotas := Turn{l}.Quotas()
		if quotas.Accounts == nil {
			quotas.Accounts = map[string]record.Quota{}
		}
		if account == "" {
			quotas.Default = q
		} else {
			quotas.Accounts[account] = q
		}
		Turn{l}.SetQuotas(quotas, "root")
	})
}

// most returns a limit.
func most(l record.Limit) *record.Limit { return &l }

// by submits a launch of an account, which must be accepted.
func (w *world) by(account string, spec launch.Spec) string {
	w.Helper()
	id, err := w.submit(spec, Submission{Owner: account, By: account})
	if err != nil {
		w.Fatal(err)
	}
	return id
}

// held waits until a launch is held, and returns why.
func (w *world) held(id string) (reason string) {
	w.Helper()
	w.awaitTurn(func(l *Leader) bool {
		reasons, _ := Turn{l}.Reasons(Turn{l}.Find(id))
		reason = strings.Join(reasons, "; ")
		return strings.Contains(reason, "over quota")
	})
	return reason
}

// TestQuotaOfGPUs: an account has at most its quota of GPUs at once, launches over it hold up no
// other account, and they start in their order when there is room. A new leader goes on with that.
func TestQuotaOfGPUs(t *testing.T) {
	w := newWorld(t)
	a := w.join("a", 8)
	w.limit("ada", record.Quota{GPUs: most(4)})
	first := w.by("ada", simple(3, 1))
	w.await(first, launch.Running)
	second := w.by("ada", simple(3, 1))
	if reason := w.held(second); !strings.Contains(reason, "over quota: 6 of 4 GPUs used by ada with this launch; launches 1 have 3") {
		t.Errorf("the second waits: %s", reason)
	}
	small := w.by("ada", simple(1, 1))
	urgent := simple(2, 1)
	urgent.Priority = 5
	third := w.by("ada", urgent)
	other := w.by("bob", simple(5, 1))
	w.await(other, launch.Running)
	a.awaitRunning(8)
	if reason := w.held(small); !strings.Contains(reason, "an earlier launch of ada waits") {
		t.Errorf("the small one waits: %s", reason)
	}
	w.depose()
	a.detach()
	w.lead()
	a.attach()
	w.held(second)
	w.held(third)
	for _, k := range a.awaitRunning(8) {
		if strings.HasPrefix(k, first) {
			a.finish(k, 0)
		}
	}
	w.await(third, launch.Running)
	w.held(second)
	w.limit("ada", record.Quota{GPUs: most(record.NoLimit)})
	for _, k := range a.running() {
		if strings.HasPrefix(k, other) {
			a.finish(k, 0)
		}
	}
	w.await(second, launch.Running)
	w.await(small, launch.Running)
}

// TestQuotaNever: what could never start is refused when it is sent, and told if the quota became
// smaller since. It holds up no other launch of its account.
func TestQuotaNever(t *testing.T) {
	w := newWorld(t)
	a := w.join("a", 8)
	w.limit("", record.Quota{GPUs: most(4)})
	if _, err := w.submit(simple(5, 1), Submission{Owner: "ada"}); !errors.Is(err, ErrOverQuota) ||
		!strings.Contains(err.Error(), "needs 5 GPUs at once, and ada may have 4") {
		t.Errorf("5 of 4 GPUs: %v", err)
	}
	ranged := simple(2, 2)
	ranged.Jobs[0].Replicas.Max = 4
	elastic := w.by("ada", ranged)
	a.awaitRunning(2)
	later := w.by("ada", simple(4, 1))
	w.held(later)
	w.limit("ada", record.Quota{GPUs: most(3)})
	if reason := w.held(later); !strings.Contains(reason, "it needs 4 GPUs at once, and ada may have 3") {
		t.Errorf("after the change: %s", reason)
	}
	if got := w.await(elastic, launch.Running); len(a.running()) != 2 {
		t.Errorf("the elastic one has %v: %+v", a.running(), got.State)
	}
	for _, k := range a.running() {
		a.finish(k, 0)
	}
	w.await(w.by("ada", simple(3, 1)), launch.Running)
}

// TestQuotaLowered: a launch that the scheduler knows, and has not placed, does not start over a
// quota that has become smaller.
func TestQuotaLowered(t *testing.T) {
	w := newWorld(t)
	a := w.join("a", 2)
	first := w.by("bob", simple(2, 1))
	w.await(first, launch.Running)
	waits := w.by("ada", simple(2, 1))
	w.limit("ada", record.Quota{GPUs: most(1)})
	w.held(waits)
	for _, k := range a.awaitRunning(2) {
		a.finish(k, 0)
	}
	w.await(first, launch.Ended)
	w.held(waits)
	w.limit("ada", record.Quota{})
	w.await(waits, launch.Running)
}

// TestQuotaRefuses: a launch that does not want to wait ends when its account has all its GPUs.
func TestQuotaRefuses(t *testing.T) {
	w := newWorld(t)
	w.join("a", 4)
	w.limit("ada", record.Quota{GPUs: most(2)})
	w.await(w.by("ada", simple(2, 1)), launch.Running)
	spec := simple(1, 1)
	spec.Queue = launch.Refuse
	if got := w.await(w.by("ada", spec), launch.Ended); !strings.Contains(got.State.Reason, "over quota: 3 of 2 GPUs") {
		t.Errorf("it ended: %s", got.State.Reason)
	}
}

// TestQuotaOfLaunches: launches that wait are counted, those that run and those of others are not.
func TestQuotaOfLaunches(t *testing.T) {
	w := newWorld(t)
	w.join("a", 1)
	w.limit("ada", record.Quota{Launches: most(2)})
	w.await(w.by("ada", simple(1, 1)), launch.Running)
	waits := w.by("ada", simple(1, 1))
	w.by("ada", simple(1, 1))
	w.by("bob", simple(1, 1))
	if _, err := w.submit(simple(1, 1), Submission{Owner: "ada"}); !errors.Is(err, ErrOverQuota) ||
		!strings.Contains(err.Error(), "2 launches of ada wait, 1 more are asked for, and 2 may wait") {
		t.Errorf("the third that waits: %v", err)
	}
	w.turn(func(l *Leader) { l.mustApply(l.launches[waits], launch.StopRequested{By: "ada"}) })
	w.await(waits, launch.Ended)
	w.by("ada", simple(1, 1))
}

// TestQuotaOfCode: code counts once, whether it was launched or only sent, and by whom it was sent.
func TestQuotaOfCode(t *testing.T) {
	w := newWorld(t)
	w.limit("ada", record.Quota{CodeBytes: most(100)})
	code := func(name string, bytes uint64) record.Code { return record.Code{Hash: name, Bytes: bytes} }
	admit := func(account string, c record.Code) (noted bool, err error) {
		w.turn(func(l *Leader) { noted, err = Turn{l}.AdmitCode(account, c) })
		return noted, err
	}
	if noted, err := admit("ada", code("a", 60)); err != nil || !noted {
		t.Errorf("the first: %v, %v", noted, err)
	}
	if noted, err := admit("ada", code("a", 60)); err != nil || noted {
		t.Errorf("the first again: %v, %v", noted, err)
	}
	if _, err := admit("ada", code("b", 41)); !errors.Is(err, ErrOverQuota) ||
		!strings.Contains(err.Error(), "the code has 41 B, ada has 60 B of code here already, and may have 100 B") {
		t.Errorf("the second: %v", err)
	}
	if _, err := admit("bob", code("b", 1<<40)); err != nil {
		t.Errorf("another account's: %v", err)
	}
	if _, err := w.submit(simple(1, 1), Submission{Owner: "ada", Code: code("a", 60)}); err != nil {
		t.Errorf("a launch of what was sent: %v", err)
	}
	if _, err := w.submit(simple(1, 1), Submission{Owner: "ada", Code: code("c", 41)}); !errors.Is(err, ErrOverQuota) {
		t.Errorf("a launch of code that another account has sent: %v", err)
	}
	w.turn(func(l *Leader) {
		if noted, err := (Turn{l}).AdmitCode("ada", code("d", 40)); !noted || err != nil {
			t.Errorf("up to the limit: %v, %v", noted, err)
		}
		Turn{l}.ForgetCode("ada", code("d", 40))
		if got := l.use("ada").CodeBytes; got != 60 {
			t.Errorf("%d bytes are counted, want 60", got)
		}
	})
}

// TestQuotaOfUploads: code that was sent and not launched counts for the next leader, too, until it
// is launched or old.
func TestQuotaOfUploads(t *testing.T) {
	w := newWorld(t)
	w.config.KeepEnded = time.Hour
	w.limit("ada", record.Quota{CodeBytes: most(100)})
	counts := func(want uint64) {
		t.Helper()
		w.turn(func(l *Leader) {
			if got := l.use("ada").CodeBytes; got != want {
				t.Errorf("%d bytes are counted, want %d", got, want)
			}
		})
	}
	w.turn(func(l *Leader) {
		for name, bytes := range map[string]uint64{"a": 60, "b": 30} {
			if _, err := (Turn{l}).AdmitCode("ada", record.Code{Hash: name, Bytes: bytes}); err != nil {
				t.Error(err)
			}
		}
	})
	w.depose()
	w.lead()
	counts(90)
	if _, err := w.submit(simple(1, 1), Submission{Owner: "ada", Code: record.Code{Hash: "a", Bytes: 60}}); err != nil {
		t.Error(err)
	}
	w.turn(func(l *Leader) {
		l.quotas.forgetUploads(l.clock.Wall().Add(-time.Minute)) // of which none is that old
		if left := len(l.quotas.uploads["ada"].Code); left != 1 {
			t.Errorf("%d uploads are left", left)
		}
		l.quotas.forgetUploads(l.clock.Wall().Add(time.Minute))
	})
	w.depose()
	w.lead()
	counts(60) // by the launch
}
