package main

import (
	"fmt"
	"slices"

	"github.com/phos-gpu/phos/cli/cluster/daemons"
	"github.com/phos-gpu/phos/cli/cluster/launches"
	"github.com/phos-gpu/phos/cli/cluster/login"
	"github.com/phos-gpu/phos/cli/cluster/nodes"
	"github.com/phos-gpu/phos/cli/cluster/submit"
	"github.com/phos-gpu/phos/cli/cluster/training"
	"github.com/phos-gpu/phos/cli/manual"
	"github.com/phos-gpu/phos/cli/migrate"
	"github.com/phos-gpu/phos/cli/migrate/arrive"
	"github.com/phos-gpu/phos/cli/plan"
	"github.com/phos-gpu/phos/cli/sim"
	"github.com/phos-gpu/phos/cli/verb"
	"github.com/phos-gpu/phos/daemon/api"
)

// commands returns all verbs, in the order of the help text, for a command that is called so.
func commands(program string) *verb.Set {
	all := verb.Set{
		Program: program,
		Verbs: []*verb.Verb{
			&startVerb, &statusVerb, &stopVerb, &runVerb, &psVerb, &envVerb,
			&preDumpVerb, &dumpVerb, &restoreVerb, &preRestoreVerb, &migrate.Verb, &arrive.Verb, &cleanVerb, &traceVerb,
			&imagesVerb, &rmVerb, imageVerb, &imageListVerb, &imageShowVerb, &imageCheckVerb,
			&imageVerifyVerb, &imageDiffVerb, &imagePruneVerb, &imageKeyVerb,
			&versionVerb,
		},
		Reserved:  []string{"start", "dump", "pre-dump", "restore"},
		ManualEnd: fmt.Sprintf(manualEnd, api.DefaultSocket, daemonLog),
		Pages:     manual.Pages(daemonLog),
	}
	last := len(all.Verbs) - 1
	all.Verbs = slices.Insert(all.Verbs, last, clusterVerbs()...)
	last = len(all.Verbs) - 1
	all.Verbs = slices.Insert(all.Verbs, last, append(sim.Verbs(), plan.Verbs()...)...)
	return all.WithHelp()
}

// clusterVerbs returns the verbs that speak to a cluster, except ps.
func clusterVerbs() []*verb.Verb {
	return slices.Concat([]*verb.Verb{submit.Verb(), daemons.StatusVerb()}, launches.Verbs(), training.Verbs(), nodes.Verbs(), login.Verbs())
}
