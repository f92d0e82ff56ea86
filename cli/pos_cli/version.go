package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"

	"github.com/phos-gpu/phos/cli/verb"
	"github.com/phos-gpu/phos/daemon/api"
)

var versionVerb = verb.Verb{
	Name:    "version",
	Summary: "print the versions of pos_cli and of the running phosd",
	About:   `Prints the version of this command and, if phosd answers, of phosd.`,
	Setup: func(flags *flag.FlagSet) func(context.Context, verb.Streams, []string) error {
		asJSON := flags.Bool("json", false, "print JSON")
		return func(ctx context.Context, to verb.Streams, _ []string) error {
			view := versionView{PosCLI: api.Version}
			phosdErr := view.askPhosd(ctx)
			if *asJSON {
				return errors.Join(json.NewEncoder(to.Out).Encode(view), phosdErr)
			}
			fmt.Fprintf(to.Out, "pos_cli %s\n", view.PosCLI)
			if view.Phosd != nil {
				fmt.Fprintf(to.Out, "phosd %s (wire %d)\n", view.Phosd.Version, view.Phosd.Wire)
			}
			return phosdErr
		}
	},
}

// versionView is what --version --json prints. Scripts read it: fields may be added, never renamed
// or removed.
type versionView struct {
	PosCLI string `json:"pos_cli"`
	// Phosd is null if none runs.
	Phosd *phosdVersion `json:"phosd"`
}

// phosdVersion is the version of phosd and of its session files.
type phosdVersion struct {
	Version string `json:"version"`
	Wire    uint32 `json:"wire"`
}

// askPhosd adds the version of phosd, if one runs.
func (v *versionView) askPhosd(ctx context.Context) error {
	client, err := api.Dial(api.Socket())
	if err != nil {
		return nil //nolint:nilerr // no phosd runs, which is not an error here
	}
	defer client.Close()
	reply, err := client.Daemon.Version(ctx, &api.VersionRequest{})
	if err != nil {
		return err
	}
	v.Phosd = &phosdVersion{reply.GetVersion(), reply.GetWire()}
	return nil
}
