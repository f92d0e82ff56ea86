package elastic

import (
	"strings"

	"github.com/phos-gpu/phos/cluster"
	"github.com/phos-gpu/phos/scheduler"
)

// caps are the users' caps, each including all users below. A nil caps limits no user.
type caps struct {
	names  []string         // the users with a cap
	most   budgets          // their caps
	byUser map[string][]int // the caps that limit a user: its own and those of its ancestors, nearest first
}

// budgets is what is left of caps, in thousandths of GPUs.
type budgets []int

// capsOf returns the caps that limit some jobs.
func capsOf(v scheduler.View, jobs []*scheduler.Job) *caps {
	c, at := &caps{byUser: map[string][]int{}}, map[string]int{}
	for _, j := range jobs {
		if _, ok := c.byUser[j.User()]; ok {
			continue
		}
		var bounds []int
		for _, user := range withAncestors(j.User()) {
			most := v.User(user).Cap
			if most == scheduler.Uncapped {
				continue
			}
			i, ok := at[user]
			if !ok {
				i = len(c.names)
				at[user], c.names, c.most = i, append(c.names, user), append(c.most, most*cluster.WholeGPU)
			}
			bounds = append(bounds, i)
		}
		c.byUser[j.User()] = bounds
	}
	return c
}

// withAncestors returns a user and its ancestors: a/b, then a.
func withAncestors(user string) []string {
	all := []string{user}
	for i := strings.LastIndexByte(user, '/'); i > 0; i = strings.LastIndexByte(user[:i], '/') {
		all = append(all, user[:i])
	}
	return all
}

// bounds returns the caps that limit a job.
func (c *caps) bounds(j *scheduler.Job) []int {
	if c == nil {
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
