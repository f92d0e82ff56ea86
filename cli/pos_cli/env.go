package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"github.com/phos-gpu/phos/cli/launch"
	"github.com/phos-gpu/phos/cli/verb"
)

var envVerb = verb.Verb{
	Name:    "env",
	Summary: "print shell code that sets $phos",
	About: `Prints shell code for: eval "$(pos_cli --env)". After that,

    env $phos python3 train.py

runs a program with libphos.so in place of the CUDA driver. This works for programs that link the
driver, open it by name, or search the library path for it. Earlier values of LD_PRELOAD and
LD_LIBRARY_PATH are kept, after those of phos.

The code is for sh and bash. In other shells, and in cron, units and containers, use pos_cli run,
which sets the same variables and refuses if no phosd answers:

    pos_cli run -- python3 train.py

In zsh, env ${=phos} works too: it splits at spaces.

The manual page (man pos_cli) has the variables that libphos.so reads: PHOS_SOCKET, PHOS_LOG and
PHOS_COPY, and PHOS_JOB, which the worker reads.`,
	Setup: func(*flag.FlagSet) func(context.Context, verb.Streams, []string) error {
		return func(_ context.Context, to verb.Streams, _ []string) error {
			self, err := os.Executable()
			if err != nil {
				return err
			}
			found, err := launch.FindLibrary(self)
			if err != nil {
				return err
			}
			_, err = fmt.Fprint(to.Out, found.ShellCode())
			return err
		}
	},
}
