package elastic

import (
	"strings"

	"github.com/phos-gpu/phos/cluster"
	"github.com/phos-gpu/phos/scheduler"
)

// caps are what users may hold, each together with all below him. A nil one bounds nobody.
type caps struct {
	names  []string         // of the users with a cap
	most   budgets          // theirs
	byUser map[string][]int // by user, which caps bound him: his own and those of all above him, the nearest first
}

// budgets is what is left of caps, in thousandths of GPUs.
type budgets []int

// capsOf finds the caps that bound some jobs.
func capsOf(v scheduler.View, jobs []*scheduler.Job) *caps {
	c, at := &caps{byUser: map[string][]int{}}, map[string]int{}
	for _, j := range jobs {
		if _, known := c.byUser[j.User()]; known {
			continue
		}
		var bounds []int
		for _, user := range withAncestors(j.User()) {
			most := v.User(user).Cap
			if most == scheduler.Uncapped {
				continue
			}
			i, known := at[user]
			if !known {
				i = len(c.names)
				at[user], c.names, c.most = i, append(c.names, user), append(c.most, most*cluster.WholeGPU)
			}
			bounds = append(bounds, i)
		}
		c.byUser[j.User()] = bounds
	}
	return c
}

// withAncestors is a user and all above him: a/b, then a.
func withAncestors(user string) []string {
	all := []string{user}
	for i := strings.LastIndexByte(user, '/'); i > 0; i = strings.LastIndexByte(user[:i], '/') {
		all = append(all, user[:i])
	}
	return all
}

// bounds are the caps that a job comes under.
func (c *caps) bounds(j *scheduler.Job) []int {
	if c == nil {
		return nil
	}
	return c.byUser[j.User()]
}

// has reports whether there is so much in each of some purses.
func (p budgets) has(which []int, thousandths int) bool {
	for _, i := range which {
		if p[i] < thousandths {
			return false
		}
	}
	return true
}

// spend takes so much out of each; less than nothing puts it back.
func (p budgets) spend(which []int, thousandths int) {
	for _, i := range which {
		p[i] -= thousandths
	}
}
