package login

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/cluster/identity/token"
)

// maxTokenBytes is more than any token has.
const maxTokenBytes = 4096

// readToken reads the token: from a file, or from the standard input. At a terminal it is asked
// for, and not shown.
func readToken(path string, stdin *os.File, prompt io.Writer) (token.User, error) {
	from := stdin
	if path != "" && path != "-" {
		opened, err := os.Open(path)
		if err != nil {
			return token.User{}, fmt.Errorf("read the token: %w", err)
		}
		defer opened.Close()
		from = opened
	} else if show, err := hideTyping(stdin); err == nil {
		fmt.Fprint(prompt, "token: ")
		defer fmt.Fprintln(prompt)
		defer show()
	}
	line, err := bufio.NewReader(io.LimitReader(from, maxTokenBytes)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return token.User{}, fmt.Errorf("read the token: %w", err)
	}
	if strings.TrimSpace(line) == "" {
		return token.User{}, errors.New("read the token: there is none; phos user add NAME makes one on a controller's machine")
	}
	read, err := token.ParseUser(strings.TrimSpace(line))
	if err != nil {
		return token.User{}, fmt.Errorf("read the token: %w", err)
	}
	return read, nil
}

// hideTyping stops a terminal from showing what is typed, until show is called. The error says that
// the file is no terminal.
func hideTyping(terminal *os.File) (show func(), err error) {
	fd := int(terminal.Fd())
	before, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return nil, err
	}
	hidden := *before
	hidden.Lflag &^= unix.ECHO
	if err := unix.IoctlSetTermios(fd, unix.TCSETS, &hidden); err != nil {
		return nil, err
	}
	return func() { _ = unix.IoctlSetTermios(fd, unix.TCSETS, before) }, nil
}
