// Package manual has the manual pages besides pos_cli(1). The keys of phosd.toml and the flags of
// phosd come from package config.
package manual

import (
	"flag"
	"fmt"
	"strings"

	"github.com/phos-gpu/phos/cli/verb"
	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/config"
)

// Pages returns the pages by file name, as functions that write them. The log is that of a phosd in
// the background.
func Pages(log string) map[string]func() string {
	return map[string]func() string{
		"phosd.8":      func() string { return phosdPage(log) },
		"phosd.toml.5": phosdTomlPage,
		"pos.yaml.5":   func() string { return pageHead("pos.yaml", "5", "how phos treats a program") + posYamlText },
	}
}

// pageHead is the beginning of a page.
func pageHead(name, section, summary string) string {
	return fmt.Sprintf(
		".TH %s %s \"\" \"phos %s\" \"phos\"\n.SH NAME\n%s \\- %s\n",
		strings.ToUpper(name), section, verb.Roff(api.Version), name, summary,
	)
}

// phosdPage returns phosd(8).
func phosdPage(log string) string {
	var text strings.Builder
	text.WriteString(pageHead("phosd", "8", "GPU checkpoint daemon"))
	text.WriteString(phosdText)
	var settings config.Flags
	flags := flag.NewFlagSet("phosd", flag.ContinueOnError)
	settings.Register(flags)
	flags.VisitAll(func(each *flag.Flag) {
		value, usage := flag.UnquoteUsage(each)
		fmt.Fprintf(&text, ".TP\n.B %s\n%s\n", verb.Roff("--"+each.Name+" "+strings.ToUpper(value)), verb.Roff(usage))
	})
	fmt.Fprintf(&text, phosdTextEnd, api.DefaultSocket, log)
	return text.String()
}

// phosdTomlPage returns phosd.toml(5): every key with its comment and default, from the text that
// phosd --print-config prints.
func phosdTomlPage() string {
	var text, comment strings.Builder
	text.WriteString(pageHead("phosd.toml", "5", "configuration of phosd"))
	fmt.Fprintf(&text, phosdTomlText, config.DefaultPath)
	for line := range strings.SplitSeq(config.Default().Text(), "\n") {
		line = strings.TrimSpace(line)
		switch {
		case line == "":
		case line[0] == '#':
			comment.WriteString(verb.Roff(strings.TrimSpace(line[1:])) + "\n")
		case line[0] == '[':
			fmt.Fprintf(&text, ".SS %s\n", line)
		default:
			key, value, _ := strings.Cut(line, " = ")
			fmt.Fprintf(&text, ".TP\n.B %s\n%s.br\nDefault: %s\n", key, comment.String(), verb.Roff(value))
			comment.Reset()
		}
	}
	text.WriteString(phosdTomlTextEnd)
	return text.String()
}

const phosdText = `.SH SYNOPSIS
.B phosd
.RI [ FLAG ...]
.SH DESCRIPTION
phosd serves this machine's GPUs to programs that have been started under phos, one worker process per program, and
saves and restores these programs. It runs as root, in the foreground:
.B systemctl start phosd
or
.B pos_cli \-\-start
start it in the background. If phosd ends, programs keep running, and the next phosd adopts them.
.SH OPTIONS
A setting on the command line goes before that of
.BR phosd.toml (5).
.TP
.B \-\-print\-config
show the configuration in effect, with comments, and exit
.TP
.B \-\-version
show the version, and exit
`

const phosdTextEnd = `.SH SIGNALS
.TP
.B SIGTERM, SIGINT
Save the programs whose policies have "on: [exit\-signal]", and exit. Programs keep running.
A second signal ends phosd at once.
.TP
.B SIGHUP
Open the log file and read the configuration again. The log's level changes at once;
the log names the changed keys that need a restart.
.SH EXIT STATUS
0: ended by a signal. 1: failed; standard error has the reason. 2: the command line is wrong.
.SH FILES
.TP
.B /etc/phos/phosd.toml
configuration
.TP
.B %s
socket of programs and of pos_cli
.TP
.B /var/lib/phos
the key that seals images, keys of other machines, unfinished work
.TP
.B %s
log of a phosd that pos_cli \-\-start has started; that of phosd.service is in the journal
.SH SEE ALSO
.BR pos_cli (1),
.BR phosd.toml (5),
.BR pos.yaml (5)
`

const phosdTomlText = `.SH DESCRIPTION
.B %s
has the settings of
.BR phosd (8),
in TOML. The file need not exist. An unknown key is an error.
.B phosd \-\-print\-config
prints the settings in effect. SIGHUP makes phosd read the file again; most keys need a restart.
.SH KEYS
`

const phosdTomlTextEnd = `.SH SEE ALSO
.BR phosd (8),
.BR pos_cli (1)
`

// posYamlText follows the head of pos.yaml(5).
const posYamlText = `.SH DESCRIPTION
phos reads
.B pos.yaml
in the working directory in which a program starts. The file need not exist. The variable PHOS_JOB of the program's
environment has text in the same form, whose keys go before those of the file.
A wrong file is reported by pos_cli \-\-status; the program starts even so.
.SH KEYS
.TP
.B job_name
the program's name in pos_cli ps and in images; otherwise the name of the Python script, or of the program
.TP
.B daemon_addr
path of the socket of phosd; it goes before PHOS_SOCKET
.TP
.B log_path
file for phosd's log of this program, not for the program's output
.TP
.B checkpoint
the policy by which phosd saves the program by itself; it replaces that of
.BR phosd.toml (5)
.SS checkpoint
.TP
.B dir
the image's directory, as the program sees it, and created; its parents, too, below the working directory and below a directory of the program's user; {job}, {pid} and {rank} are replaced
.TP
.B every
interval, as 10m or 1h30m
.TP
.B keep
how many generations stay, 3 by default; 0: all
.TP
.B bandwidth
bytes a second that a checkpoint may copy and write, as 500MiB; the pause is not held up
.TP
.B on
a list of further events: exit\-signal (phosd is told to end; the program keeps running) and drain (pos_cli \-\-stop
\-\-drain; the program is stopped)
.TP
.B restore
on\-boot: phosd restores the program after a restart of the machine
.SH EXAMPLE
.nf
job_name: resnet
checkpoint:
    dir: ckpt-{rank}
    every: 10m
    on: [exit\-signal, drain]
.fi
.SH SEE ALSO
.BR pos_cli (1),
.BR phosd.toml (5)
`
