package members

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/phos-gpu/phos/cluster/record"
	"github.com/phos-gpu/phos/cluster/store"
)

// register writes what this controller says of itself, over what one of its name has said before.
// A list of peers is all controllers that there are: records of others are removed.
func register(ctx context.Context, objects store.Store, self record.Controller, peers []string) error {
	all, _, err := objects.List(ctx, record.ControllerPrefix)
	if err != nil {
		return fmt.Errorf("list the controllers: %w", err)
	}
	before := store.New
	for _, object := range all {
		name := record.ControllerName(object.Key)
		switch {
		case name == self.Name:
			before = object.Revision
		case len(peers) > 0 && !slices.Contains(peers, name):
			if err := objects.Delete(ctx, store.Write{Key: object.Key, Replaces: object.Revision}); err != nil {
				return fmt.Errorf("forget controller %s: %w", name, err)
			}
		}
	}
	write := store.Write{Key: record.ControllerKey(self.Name), Value: self.Encode(), Replaces: before}
	if _, err := objects.Put(ctx, write); err != nil {
		return fmt.Errorf("tell of this controller: %w", err)
	}
	return nil
}

// Controllers returns the controllers of the cluster, by name, as the store has them now. Some may
// not run.
func (m *Members) Controllers(ctx context.Context) ([]record.Controller, error) {
	objects, _, err := m.store.List(ctx, record.ControllerPrefix)
	if err != nil {
		return nil, fmt.Errorf("list the controllers: %w", err)
	}
	return m.controllersIn(objects)
}

// controllersIn returns this controller and those of records, by name. With an error about damaged
// records it returns the others.
func (m *Members) controllersIn(objects []store.Object) (sorted []record.Controller, damaged error) {
	all := map[string]record.Controller{m.settings.Self.Name: m.settings.Self}
	for _, object := range objects {
		c, err := record.DecodeController(object.Value)
		if err != nil {
			damaged = errors.Join(damaged, fmt.Errorf("%s: %w", object.Key, err))
			continue
		}
		all[c.Name] = c
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		sorted = append(sorted, all[name])
	}
	return sorted, damaged
}

// Addresses returns where the controllers are reached, as this one has last learned. It does not
// wait for the store.
func (m *Members) Addresses() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.addresses
}

// takeControllers notes where the controllers of the store are reached, except those with damaged
// records.
func (m *Members) takeControllers(objects []store.Object) {
	all, _ := m.controllersIn(objects) // Controllers says what is damaged
	addresses := make([]string, len(all))
	for i, each := range all {
		addresses[i] = each.Address
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.addresses = addresses
}
