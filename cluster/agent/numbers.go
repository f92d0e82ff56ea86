package agent

import (
	"time"

	"github.com/phos-gpu/phos/cluster/metrics"
)

// Numbers returns what the agent knows of itself, for Prometheus.
func (a *Agent) Numbers() metrics.AgentState {
	state := metrics.AgentState{
		Epoch: a.attempts.highestEpoch(), CertificateEnds: a.config.Certificate.Ends(), Attempts: map[string]int{},
		Attached: a.attempts.isReporting(),
	}
	for _, report := range a.attempts.reports() {
		state.Attempts[report.GetState()]++
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	state.Renewed = a.renewed
	return state
}

// noteRenewal notes that the lease was renewed now.
func (a *Agent) noteRenewal() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.renewed = time.Now()
}
