package quota

import (
	"cmp"
	"slices"

	"github.com/phos-gpu/phos/internal/linux/proc"
)

// holder is what a process holds by a claim.
type holder struct {
	process proc.Identity
	bytes   uint64
}

// By names the process for which the claim was taken. A later refusal names it to its user. After
// Release it has no effect.
func (c *Claim) By(process proc.Identity) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.released || process.PID == 0 {
		return
	}
	c.quota.mu.Lock()
	defer c.quota.mu.Unlock()
	c.quota.holders[c] = holder{process, c.held}
}

// note records what a claim holds now, if its process is known.
func (q *Quota) note(c *Claim, held uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if known, ok := q.holders[c]; ok {
		known.bytes = held
		q.holders[c] = known
	}
}

// forget ends note.
func (q *Quota) forget(c *Claim) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.holders, c)
}

// describeHolders names the processes of a user that hold most of a resource; "" if none is known.
func (q *Quota) describeHolders(uid uint32, resource Resource) string {
	q.mu.Lock()
	var found []holder
	for c, each := range q.holders {
		if c.uid == uid && c.resource == resource && each.bytes > 0 {
			found = append(found, each)
		}
	}
	q.mu.Unlock()
	slices.SortFunc(found, func(a, b holder) int {
		return cmp.Or(cmp.Compare(b.bytes, a.bytes), cmp.Compare(a.process.PID, b.process.PID))
	})
	processes := make([]proc.Identity, len(found))
	for i, each := range found {
		processes[i] = each.process
	}
	return Describe(uid, processes)
}
