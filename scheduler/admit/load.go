package admit

import (
	"fmt"

	"github.com/phos-gpu/phos/scheduler"
)

// Load admits jobs while the admitted ones ask for no more than Threshold times the cluster's GPUs;
// the job that exceeds it is still admitted. So orders that share the cluster among all jobs have
// fewer to share it among: S. Agarwal et al., "Blox: A Modular Toolkit for Deep Learning
// Schedulers", EuroSys 2024.
type Load struct {
	Threshold float64
}

// Admit reports whether the admitted jobs are within the threshold.
func (l Load) Admit(v scheduler.View, _ *scheduler.Job) bool {
	return float64(v.Demand()) <= l.Threshold*v.Capacity().GPUs
}

// Limit says why the next job is not admitted.
func (l Load) Limit(v scheduler.View, _ *scheduler.Job) string {
	return fmt.Sprintf("the admitted jobs ask for %d GPUs, and the next is admitted at %.3g or fewer", v.Demand(),
		l.Threshold*v.Capacity().GPUs)
}
