package admit

import (
	"fmt"

	"github.com/phos-gpu/phos/scheduler"
)

// Quota admits the jobs of each tenant while they ask for no more than a part of the cluster's
// GPUs. A tenant's only job is admitted even if it is larger. Tenants do not block each other.
type Quota struct {
	Part float64
}

// Admit reports whether the tenant's quota allows one more job.
func (q Quota) Admit(v scheduler.View, first *scheduler.Job) bool {
	inside := v.User(first.User()).Demand
	return inside == 0 || float64(inside+first.GPUs()) <= q.Part*v.Capacity().GPUs
}

// Tenant returns the job's user.
func (Quota) Tenant(j *scheduler.Job) string { return j.User() }

// Limit says why the next job of the tenant is not admitted.
func (q Quota) Limit(v scheduler.View, first *scheduler.Job) string {
	return fmt.Sprintf("the admitted jobs of its user ask for %d GPUs, and with this one they may ask for %.3g",
		v.User(first.User()).Demand, q.Part*v.Capacity().GPUs)
}
