package admit

import "github.com/phos-gpu/phos/scheduler"

// Quota lets the jobs of each tenant in as long as they ask for no more than a part of the
// cluster's GPUs together. A job that alone is larger gets in by itself. Tenants do not hold each
// other up.
type Quota struct {
	Part float64
}

// Admit counts what the tenant would ask for with this job.
func (q Quota) Admit(v scheduler.View, first *scheduler.Job) bool {
	inside := v.User(first.User()).Demand
	return inside == 0 || float64(inside+first.GPUs()) <= q.Part*v.Capacity().GPUs
}

// Tenant is the tenant.
func (Quota) Tenant(j *scheduler.Job) string { return j.User() }
