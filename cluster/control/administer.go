package control

import (
	"context"
	"fmt"
	"maps"
	"strings"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/launch"
	"github.com/phos-gpu/phos/cluster/record"
	"github.com/phos-gpu/phos/cluster/store"
)

// maxLabels is how many labels a node may have.
const maxLabels = 100

// changeNode changes what administrators say of a node.
func (l *Leader) changeNode(n *node, by string, request *api.ChangeNodeRequest) error {
	labels := maps.Clone(n.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	for name, value := range request.GetSetLabels() {
		if !isLabel(name) || !isLabel(value) {
			return api.Invalid(fmt.Sprintf("label %.80q: want letters, digits and -_. as NAME=VALUE, at most 63 of each", name+"="+value))
		}
		labels[name] = value
	}
	for _, name := range request.GetRemoveLabels() {
		delete(labels, name)
	}
	if len(labels) > maxLabels {
		return api.Invalid(fmt.Sprintf("a node has at most %d labels", maxLabels))
	}
	for _, text := range []string{request.GetCluster(), request.GetShard()} {
		if text != "" && !isLabel(text) {
			return api.Invalid(fmt.Sprintf("%.80q: want letters, digits and -_., at most 63", text))
		}
	}
	n.Labels = labels
	if request.Cluster != nil {
		n.Cluster = request.GetCluster()
	}
	if request.Shard != nil {
		n.Shard = request.GetShard()
	}
	l.changedNodes[n] = struct{}{}
	l.factsChanged(n)
	l.cordon(n, by, request)
	return nil
}

// isLabel reports whether text is a word for a label.
func isLabel(text string) bool {
	return text != "" && len(text) <= 63 && !strings.ContainsFunc(text, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-_.", r)
	})
}

// cordon closes a node to new launches, or opens it; a drain also takes away what it has.
func (l *Leader) cordon(n *node, by string, request *api.ChangeNodeRequest) {
	if request.Cordoned != nil && n.Cordoned != request.GetCordoned() {
		n.Cordoned = request.GetCordoned()
		l.nodeEvent(n, map[bool]string{true: "cordoned", false: "uncordoned"}[n.Cordoned], "by "+by)
		if !n.Cordoned {
			n.Draining = false
		}
	}
	if request.Draining != nil && n.Draining != request.GetDraining() {
		n.Draining = request.GetDraining()
		n.Cordoned = n.Cordoned || n.Draining
		l.nodeEvent(n, map[bool]string{true: "draining", false: "no longer draining"}[n.Draining], "by "+by)
	}
	l.lookAtLease(n)
	if n.Draining {
		l.drain(n)
	}
}

// drain takes away what a node has. Launches that can go on without its replicas do; others move to
// nodes that have room for them, or are saved, or started again elsewhere if they may be.
func (l *Leader) drain(n *node) {
	for _, e := range n.entries() {
		if l.apply(e, launch.NodeDrained{Node: n.Name}) == nil {
			l.event(e, "leaving", "node "+n.Name+" is drained: the replicas there end, and the others go on")
			continue
		}
		if e.MoveTo != "" || e.State.Phase != launch.Running {
			continue // it leaves already, or waits
		}
		if err := (mover{l}).begin(e, anyNode, "the drain of node "+n.Name); err != nil { // no other node has room for it
			mover{l}.leave(e, n)
		}
	}
}

// removeNode forgets a node. The caller says that nothing of its launches runs there.
func (l *Leader) removeNode(n *node, by string) {
	l.log.Info("node removed", "node", n.Name, "by", by)
	l.giveUp(n, "removed by "+by)
	for _, e := range l.launches {
		if e.State.Phase != launch.Ended {
			library{l}.lose(e)
		}
	}
	if n.session != nil {
		n.session.End(ErrNodeUnknown)
	}
	delete(l.nodes, n.Name)
	delete(l.changedNodes, n)
	if n.introduced {
		l.tables.names[n.id] = ""
	}
	l.removed = append(l.removed, n)
	l.factsChanged(n)
}

// AddNode makes a machine a node of the cluster. Key is the fingerprint of its certificate.
func (l *Leader) AddNode(ctx context.Context, joined record.Node) error {
	return l.ask(ctx, func() error { return l.addNode(joined) })
}

// addNode makes a machine a node. A name that is taken is refused, whatever has become of that
// node: a token for joining is no right to replace a node.
func (l *Leader) addNode(joined record.Node) error {
	if l.nodes[joined.Name] != nil {
		return fmt.Errorf("%w: there is a node %s: choose another name, or remove that one first (phos node remove %s)",
			api.ErrRefused, joined.Name, joined.Name)
	}
	joined.Joined = l.clock.Wall()
	n := &node{Node: joined, revision: store.New, renewed: l.clock.Boot()}
	l.nodes[joined.Name] = n
	l.nodeEvent(n, "joined", "")
	return nil
}
