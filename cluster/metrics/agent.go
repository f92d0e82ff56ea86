package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

var (
	describeAttached = describe("phos_agent_attached", "1 if a controller leads this node.")
	describeRenewed  = describe("phos_agent_lease_renewal_timestamp_seconds", "When the lease of the node was renewed last.")
	describeOrders   = describe("phos_agent_order_epoch", "Number of the leadership whose orders were followed last.")
	describeAttempts = describe("phos_agent_attempts", "Attempts of replicas that the node has, by state.", "state")
	describeExpiry   = describe("phos_agent_certificate_expiry_timestamp_seconds", "When the node's certificate ends.")
)

// AgentState is what an agent knows of itself.
type AgentState struct {
	Attached bool
	// Renewed is zero before the first lease.
	Renewed, CertificateEnds time.Time
	Epoch                    uint64
	// Attempts are how many there are in each state.
	Attempts map[string]int
}

// Agent has the numbers of an agent.
type Agent struct {
	registry *prometheus.Registry
	source   func() AgentState
}

// NewAgent returns the numbers of an agent.
func NewAgent(version string, source func() AgentState) *Agent {
	a := &Agent{newRegistry("agent", version), source}
	a.registry.MustRegister(a)
	return a
}

// Registry has all numbers.
func (a *Agent) Registry() prometheus.Gatherer { return a.registry }

// Describe is empty, as that of a Controller.
func (a *Agent) Describe(chan<- *prometheus.Desc) {}

// Collect asks the agent.
func (a *Agent) Collect(to chan<- prometheus.Metric) {
	out, state := output(to), a.source()
	out.gauge(describeAttached, truth(state.Attached))
	if !state.Renewed.IsZero() {
		out.gauge(describeRenewed, seconds(state.Renewed))
	}
	out.gauge(describeOrders, float64(state.Epoch))
	for _, each := range []string{"preparing", "running", "ended"} {
		out.gauge(describeAttempts, float64(state.Attempts[each]), each)
	}
	out.gauge(describeExpiry, seconds(state.CertificateEnds))
}

// seconds returns a time as Prometheus has it.
func seconds(at time.Time) float64 { return float64(at.UnixMilli()) / 1000 }
