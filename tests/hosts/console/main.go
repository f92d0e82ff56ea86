package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/tests/hosts"
)

func main() {
	// The script that gives the orders ends this process, by closing its input.
	signal.Ignore(unix.SIGINT, unix.SIGHUP)
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: console HOSTS [DIRECTORY...] <ORDERS 3>ANSWERS")
		os.Exit(2)
	}
	count, err := strconv.Atoi(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "console:", err)
		os.Exit(2)
	}
	o := newOwner()
	defer o.end()
	serve(hosts.New(o, count, hosts.Options{Visible: os.Args[2:]}), os.NewFile(3, "answers"))
}

// serve follows orders until the input ends.
func serve(all []*hosts.Host, answers *os.File) {
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM)
	defer stop()
	ctx, cancel := context.WithCancel(ctx)
	orders := make(chan string)
	go func() {
		defer cancel() // what runs is killed
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			orders <- lines.Text()
		}
	}()
	fmt.Fprintln(answers, 0)
	for {
		select {
		case order := <-orders:
			fmt.Fprintln(answers, follow(ctx, all, order))
		case <-ctx.Done():
			return
		}
	}
}

// follow does what an order says, and returns the exit status.
func follow(ctx context.Context, all []*hosts.Host, order string) (status int) {
	kind, rest, _ := strings.Cut(order, " ")
	name, script, _ := strings.Cut(rest, " ")
	for _, host := range all {
		if host.Name != name {
			continue
		}
		switch kind {
		case "boot":
			host.Boot()
			return 0
		case "kill":
			host.Kill()
			return 0
		case "run":
			return run(host.Command(ctx, "bash", "-c", script))
		}
	}
	fmt.Fprintf(os.Stderr, "console: %q is no order\n", order)
	return 2
}

// run runs a command with the console's output, and returns its exit status.
func run(command *hosts.Command) int {
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	err := command.Run()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		return exit.ExitCode()
	case err != nil:
		fmt.Fprintln(os.Stderr, "console:", err)
		return 1
	}
	return 0
}
