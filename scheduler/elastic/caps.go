package elastic

import (
	"iter"
	"strings"

	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/cluster"
)

// caps are the users' caps, each including all users below. A nil caps limits no user.
type caps struct {
	names  []string         // the users with a cap
	most   budgets          // their caps
	byUser map[string][]int // the caps that limit a user: its own and those of its ancestors, nearest first
	at     map[string]int   // the indices of names
}

// budgets is what is left of caps, in thousandths of GPUs.
type budgets []int

// newCaps returns no caps.
func newCaps() *caps { return &caps{byUser: map[string][]int{}, at: map[string]int{}} }

// read finds the caps that limit some jobs.
func (c *caps) read(v scheduler.View, lists ...[]*scheduler.Job) {
	clear(c.byUser)
	clear(c.at)
	c.names, c.most = c.names[:0], c.most[:0]
	for _, jobs := range lists {
		for i, j := range jobs {
			if i > 0 && jobs[i-1].User() == j.User() {
				continue
			}
			if _, ok := c.byUser[j.User()]; !ok {
				c.byUser[j.User()] = c.boundsOf(v, j.User())
			}
		}
	}
}

// boundsOf returns the caps of a user and its ancestors.
func (c *caps) boundsOf(v scheduler.View, user string) (bounds []int) {
	for user := range withAncestors(user) {
		most := v.User(user).Cap
		if most == scheduler.Uncapped {
			continue
		}
		i, ok := c.at[user]
		if !ok {
			i = len(c.names)
			c.at[user], c.names, c.most = i, append(c.names, user), append(c.most, most*cluster.WholeGPU)
		}
		bounds = append(bounds, i)
	}
	return bounds
}

// withAncestors returns a user and its ancestors: a/b, then a.
func withAncestors(user string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := len(user); yield(user[:i]); {
			if i = strings.LastIndexByte(user[:i], '/'); i <= 0 {
				return
			}
		}
	}
}

// bounds returns the caps that limit a job.
func (c *caps) bounds(j *scheduler.Job) []int {
	if c == nil || len(c.names) == 0 {
		return nil
	}
	return c.byUser[j.User()]
}

// has reports whether each of some budgets has at least the given amount.
func (p budgets) has(which []int, thousandths int) bool {
	for _, i := range which {
		if p[i] < thousandths {
			return false
		}
	}
	return true
}

// spend takes an amount from each of some budgets; a negative amount returns it.
func (p budgets) spend(which []int, thousandths int) {
	for _, i := range which {
		p[i] -= thousandths
	}
}
