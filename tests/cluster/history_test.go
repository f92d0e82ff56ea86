package cluster

import (
	"cmp"
	"slices"
	"testing"
	"time"
)

// standstill is the end of a time in which a host stood still.
type standstill struct {
	node   string
	thawed time.Time
}

// history is what the witnesses of a test say, and when hosts stood still.
type history struct {
	*testing.T
	said        []testimony
	standstills []standstill
	late        time.Duration // the longest that a process ran on after its host had stood still
}

// check checks that no process ran in two attempts at once, that no GPU had two owners, and that
// what restarts as a whole ran in one generation at a time. whole says which launches do.
func (h *history) check(whole map[string]bool) {
	h.Helper()
	h.apart("the process", func(t testimony) []string { return []string{t.Place()} },
		func(a, b testimony) bool { return a.Attempt == b.Attempt })
	h.apart("the GPU", func(t testimony) (keys []string) {
		for _, gpu := range t.GPUs {
			keys = append(keys, t.Node+":"+gpu)
		}
		return keys
	}, func(testimony, testimony) bool { return false })
	h.apart("the gang", func(t testimony) []string {
		if whole[t.Launch] {
			return []string{t.Launch}
		}
		return nil
	}, func(a, b testimony) bool { return a.Generation == b.Generation })
	h.Logf("%d processes ran; at most %v of one after its host had stood still", len(h.said), h.late)
}

// apart checks that of the processes with a key in common none ran before another had ended, but
// those that may run together.
func (h *history) apart(what string, keys func(testimony) []string, together func(a, b testimony) bool) {
	h.Helper()
	byKey := map[string][]testimony{}
	for _, each := range h.said {
		for _, k := range keys(each) {
			byKey[k] = append(byKey[k], each)
		}
	}
	for k, all := range byKey {
		slices.SortFunc(all, func(a, b testimony) int { return cmp.Compare(a.Began.UnixNano(), b.Began.UnixNano()) })
		for i, later := range all {
			for _, earlier := range all[:i] {
				if !together(earlier, later) && earlier.Last.After(later.Began) && !h.excused(earlier) {
					h.Errorf("%s %s had two owners:\n%+v\n%+v", what, k, earlier, later)
				}
			}
		}
	}
}

// wake is how long a process may run on after its host has stood still. Its supervisor stood still
// as well, and must get the processor first. It is the most urgent one (nice -20) and needs less
// than 100 ms, unless the machine has much more to do than it can: TestHostStoodStill of the
// supervisor measured 13 to 177 ms, above 100 in 3 of 30 runs, on two cores with a load average of
// 25. The time also begins before all processes of the host are let go. So this is no time that a
// supervisor promises; it tells what was written at the wake from what was written later.
const wake = time.Second

// excused reports whether the last writes of a process are those after a standstill of its host.
func (h *history) excused(t testimony) bool {
	for _, each := range h.standstills {
		after := t.Last.Sub(each.thawed)
		if each.node == t.Node && after >= 0 && after < wake {
			h.late = max(h.late, after)
			return true
		}
	}
	return false
}
