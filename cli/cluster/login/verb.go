package login

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net"
	"os"

	"github.com/phos-gpu/phos/cli/humanize"
	"github.com/phos-gpu/phos/cli/verb"
	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/identity"
	"github.com/phos-gpu/phos/cluster/identity/access"
)

// run is what Setup of a verb returns.
type run = func(context.Context, verb.Streams, []string) error

// Verbs returns the verbs.
func Verbs() []*verb.Verb {
	return []*verb.Verb{
		{
			Name: "login", Word: true, Arguments: "HOST:PORT", Summary: "use a cluster from this machine",
			About: `Keeps what it takes to use a cluster from this machine: the address of a controller, the cluster's
CA, and a token. All verbs about launches and nodes use that cluster from then on.

    phos login gpu-1:7411 --ca 3f0c...
    phos login gpu-1:7411 --ca 3f0c... --token-file token.txt

An administrator makes the token, by phos user add, which prints this command with the fingerprint
of the CA. The token is asked for at the terminal, or is the first line of the standard input or of
--token-file; it is never an argument, because every user of a machine can read those. Nothing is
kept unless the controller has the CA and takes the token.

The file is ~/.config/phos/cluster.json, which only its owner may read. On a controller's machine
the controller there comes first; PHOS_CLUSTER=HOST:PORT names the other one. After the CA of the
cluster was replaced, log in again.`,
			Setup: loginVerb,
		},
		{
			Name: "logout", Word: true, Summary: "forget the cluster that login has kept",
			About: `Removes ~/.config/phos/cluster.json with the token. The token itself stays valid where else it is
kept; phos user token NAME makes a new one in its place.

    phos logout`,
			Setup: logoutVerb,
		},
	}
}

// Command returns the command line by which a user logs in.
func Command(address, ca string) string {
	return fmt.Sprintf("phos login %s --ca %s", humanize.Printable(address), humanize.Printable(ca))
}

// loginVerb logs in.
func loginVerb(flags *flag.FlagSet) run {
	ca := flags.String("ca", "", "`FINGERPRINT` of the cluster's CA, as phos user add prints it")
	tokenFile := flags.String("token-file", "", "`FILE` with the token; - is the standard input")
	asJSON := flags.Bool("json", false, "print JSON")
	return func(ctx context.Context, to verb.Streams, arguments []string) error {
		address, err := controllerAddress(arguments)
		if err != nil {
			return err
		}
		c := contact{address: address}
		if err := c.ca.UnmarshalText([]byte(*ca)); err != nil {
			return &verb.UsageError{Text: fmt.Sprintf("--ca: %v; phos user add prints it, and phos --status --target cluster "+
				"on the controller's machine", err)}
		}
		path, err := access.Path(os.Getenv)
		if err != nil {
			return err
		}
		secret, err := readToken(*tokenFile, os.Stdin, to.Err)
		if err != nil {
			return err
		}
		kept, caller, err := c.introduce(ctx, secret)
		if err != nil {
			return fmt.Errorf("log in at %s: %w", address, err)
		}
		if err := kept.Save(path); err != nil {
			return err
		}
		return tell(to, kept, caller, path, *asJSON)
	}
}

// controllerAddress returns the only argument.
func controllerAddress(arguments []string) (string, error) {
	if len(arguments) != 1 {
		return "", &verb.UsageError{Text: "name one controller: phos login HOST:PORT --ca FINGERPRINT"}
	}
	if host, port, err := net.SplitHostPort(arguments[0]); err != nil || host == "" || port == "" {
		return "", &verb.UsageError{Text: fmt.Sprintf("%q is no address: want HOST:PORT, as gpu-1:7411", arguments[0])}
	}
	return arguments[0], nil
}

// logoutVerb removes the file.
func logoutVerb(*flag.FlagSet) run {
	return func(_ context.Context, to verb.Streams, _ []string) error {
		path, err := access.Path(os.Getenv)
		if err != nil {
			return err
		}
		err = os.Remove(path)
		if errors.Is(err, fs.ErrNotExist) {
			_, err = fmt.Fprintln(to.Out, "no login is kept here")
			return err
		}
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(to.Out, "%s was removed, and the token in it is forgotten here\n", humanize.Printable(path))
		return err
	}
}

// roleText says what a caller may do.
func roleText(c *api.Caller) string {
	switch identity.Role(c.GetRole()) {
	case identity.RoleAdmin:
		return "administers the cluster"
	case identity.RoleViewer:
		return "may look at everything"
	case identity.RoleUser:
	}
	return "runs launches as " + humanize.Shorten(c.GetAccount(), 60)
}
