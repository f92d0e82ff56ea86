package serve

import (
	"context"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/record"
)

// Controllers knows the controllers of the cluster, of which one leads.
type Controllers interface {
	Controllers(ctx context.Context) ([]record.Controller, error)
	// Addresses returns where they were reached when they last changed. It does not wait.
	Addresses() []string
}

// controllerViews converts controllers to messages. The page is that of the leader.
func controllerViews(all []record.Controller, leader, page string) (views []*api.Controller) {
	for _, each := range all {
		view := &api.Controller{
			Name: each.Name, Address: each.Address, Version: each.Version, Leads: each.Address == leader,
		}
		if view.GetLeads() {
			view.Page = page
		}
		views = append(views, view)
	}
	return views
}
