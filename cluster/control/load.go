package control

import (
	"context"
	"errors"
	"fmt"

	"github.com/phos-gpu/phos/cluster/record"
	"github.com/phos-gpu/phos/cluster/store"
)

// load reads all records. Nodes count as renewed now: this controller was away, so it cannot know
// since when they do not answer.
func (l *Leader) load(ctx context.Context) error {
	if err := l.loadCluster(ctx); err != nil {
		return err
	}
	l.clock = newClock(l.cluster.Created)
	objects, _, err := l.store.List(ctx, record.NodePrefix)
	if err != nil {
		return err
	}
	for _, object := range objects {
		read, err := record.DecodeNode(object.Value)
		if err != nil {
			return fmt.Errorf("%s: %w", object.Key, err)
		}
		l.nodes[read.Name] = &node{Node: read, revision: object.Revision, renewed: l.clock.boot()}
	}
	objects, _, err = l.store.List(ctx, record.LaunchPrefix)
	if err != nil {
		return err
	}
	for _, object := range objects {
		read, err := record.DecodeLaunch(object.Value)
		if err != nil {
			return fmt.Errorf("%s: %w", object.Key, err)
		}
		l.keep(&entry{Launch: read, revision: object.Revision})
	}
	return l.startQueues()
}

// loadCluster reads the record of the cluster.
func (l *Leader) loadCluster(ctx context.Context) error {
	object, err := l.store.Get(ctx, record.ClusterKey)
	if errors.Is(err, store.ErrNotFound) {
		return errors.New("the store has no cluster yet: create one with phos-controller init")
	}
	if err != nil {
		return err
	}
	l.cluster, err = record.DecodeCluster(object.Value)
	return err
}

// keep adds a launch to the tables.
func (l *Leader) keep(e *entry) {
	l.launches[e.ID] = e
	l.numbers[e.Number] = e
	l.latest = max(l.latest, e.Number)
	e.told = e.State.Orders()
}
