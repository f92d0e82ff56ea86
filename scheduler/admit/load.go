package admit

import "github.com/phos-gpu/phos/scheduler"

// Load lets jobs in as long as those inside ask for no more than so many times the cluster's GPUs;
// the job that exceeds it still gets in. So orders that share the cluster out among all have fewer
// to share it among: S. Agarwal et al., "Blox: A Modular Toolkit for Deep Learning Schedulers",
// EuroSys 2024.
type Load struct {
	Threshold float64
}

// Admit compares what the others ask for with what there is.
func (l Load) Admit(v scheduler.View, _ *scheduler.Job) bool {
	return float64(v.Demand()) <= l.Threshold*v.Capacity().GPUs
}
