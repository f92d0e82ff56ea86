package jobfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"strings"

	"github.com/goccy/go-yaml"
	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/words"
)

// Name of the file.
const Name = "pos.yaml"

// Variable is the environment variable with text like the file's. Its keys replace the file's.
const Variable = "PHOS_JOB"

// MaxBytes is the size of the largest file that is read.
const MaxBytes = 64 << 10

// File is the content of pos.yaml.
type File struct {
	// JobName names the program in pos_cli --status and in images.
	JobName string `yaml:"job_name"`
	// DaemonAddr is the socket to use: a unix path, or a loopback address, which means the default
	// socket.
	DaemonAddr string `yaml:"daemon_addr"`
	// LogPath is the file for phos's log about this program.
	LogPath string `yaml:"log_path"`
	// Checkpoint is nil if the file has no such section.
	Checkpoint *Checkpoint `yaml:"checkpoint"`
}

const fields = "job_name, daemon_addr, log_path, checkpoint: {" + checkpointFields + "}"

// maxJobName bounds the name, because status tables show it to other users.
const maxJobName = 128

// unknownField is the text of an error about a key; it lists the keys.
const unknownField = "unknown field"

// ErrInvalid is wrapped by every error about a file's content.
var ErrInvalid = errors.New("invalid " + Name)

// Error is an error in the file, with its position.
type Error struct {
	Path string
	Line int
	// Field is the key on the line; it may be empty.
	Field string
	Text  string
}

func (e *Error) Error() string {
	where := e.Path
	if e.Line > 0 {
		where = fmt.Sprintf("%s:%d", where, e.Line)
	}
	if e.Field != "" {
		where += ": " + e.Field
	}
	if e.Text == unknownField {
		return fmt.Sprintf("%s: %s (the fields are %s)", where, e.Text, fields)
	}
	return where + ": " + e.Text
}

// Unwrap returns ErrInvalid.
func (e *Error) Unwrap() error { return ErrInvalid }

// Load reads the file at a path. It returns an empty File and no error if there is no file.
func Load(path string) (File, error) {
	// Non-blocking, because the path may be a pipe without a writer.
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if errors.Is(err, os.ErrNotExist) {
		return File{}, nil
	}
	if err != nil {
		return File{}, fmt.Errorf("open %s: %w", Name, err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return File{}, fmt.Errorf("open %s: %w", Name, err)
	}
	if !info.Mode().IsRegular() {
		return File{}, &Error{Path: Name, Text: "it is not a regular file"}
	}
	text, err := io.ReadAll(io.LimitReader(file, MaxBytes+1))
	if err != nil {
		return File{}, fmt.Errorf("read %s: %w", Name, err)
	}
	return Parse(Name, text)
}

// ParseVariable parses the value of the environment variable.
func ParseVariable(text string) (File, error) {
	file, err := Parse(Variable, []byte(text))
	if err == nil && file.DaemonAddr != "" {
		file.DaemonAddr = ""
		err = &Error{
			Path: Variable, Line: lineOf([]byte(text), "daemon_addr"), Field: "daemon_addr",
			Text: "libphos.so does not read it here; set PHOS_SOCKET",
		}
	}
	return file, err
}

// With returns the file with the keys that over has.
func (f File) With(over File) File {
	if over.JobName != "" {
		f.JobName = over.JobName
	}
	if over.LogPath != "" {
		f.LogPath = over.LogPath
	}
	if over.Checkpoint != nil {
		f.Checkpoint = over.Checkpoint
	}
	return f
}

// Parse parses a file's text; path is for the errors.
func Parse(path string, text []byte) (file File, err error) {
	if len(text) > MaxBytes {
		return File{}, &Error{Path: path, Text: fmt.Sprintf("it is larger than %d bytes", MaxBytes)}
	}
	// The text is not trusted: a panic in the parser must be no more than an error in this file.
	defer func() {
		if fault := recover(); fault != nil {
			file, err = File{}, &Error{Path: path, Text: fmt.Sprintf("it cannot be parsed: %v", fault)}
		}
	}()
	text = bytes.TrimPrefix(text, []byte("\ufeff")) // some editors write a byte order mark
	decoder := yaml.NewDecoder(bytes.NewReader(text), yaml.Strict())
	if err := decoder.Decode(&file); err != nil && !errors.Is(err, io.EOF) {
		return File{}, parseError(path, text, err)
	}
	return file, file.check(path, text)
}

// check validates the fields. It clears an invalid job name, so that it is never shown.
func (f *File) check(path string, text []byte) error {
	if len(f.JobName) > maxJobName || strings.ContainsFunc(f.JobName, notPrintable) {
		f.JobName = ""
		return &Error{
			Path: path, Line: lineOf(text, "job_name"), Field: "job_name",
			Text: fmt.Sprintf("it must be at most %d printable bytes long", maxJobName),
		}
	}
	if strings.ContainsRune(f.LogPath, 0) {
		return &Error{Path: path, Line: lineOf(text, "log_path"), Field: "log_path", Text: "it holds a zero byte"}
	}
	if wrong := f.checkAddress(text); wrong != "" {
		return &Error{Path: path, Line: lineOf(text, "daemon_addr"), Field: "daemon_addr", Text: wrong}
	}
	if f.Checkpoint != nil {
		return f.Checkpoint.check(path, text)
	}
	return nil
}

// ownLine matches the address as libphos.so finds it without a YAML parser.
var ownLine = regexp.MustCompile(`(?m)^["']?daemon_addr["']?[ \t]*:(\s|$)`)

// checkAddress returns what is wrong with the address, or "".
func (f *File) checkAddress(text []byte) string {
	switch {
	case !local(f.DaemonAddr):
		return fmt.Sprintf(
			"%q is another host; use a unix path or a loopback address",
			f.DaemonAddr,
		)
	case f.DaemonAddr != "" && !ownLine.Match(text):
		return "it must stand at the beginning of a line, or the program does not find it"
	}
	return ""
}

func (c *Checkpoint) check(path string, text []byte) error {
	_, err := c.Policy()
	var wrong *fieldError
	if !errors.As(err, &wrong) {
		return err
	}
	line := lineOf(text, wrong.field)
	if section := lineOf(text, "checkpoint"); line < section {
		line = section // all of it on one line, or the field is missing
	}
	return &Error{Path: path, Line: line, Field: "checkpoint." + wrong.field, Text: wrong.text}
}

// local reports whether an address is a path or host[:port] with a loopback host.
func local(address string) bool {
	if address == "" || strings.ContainsAny(address[:1], "/.") || strings.HasPrefix(address, "unix:") {
		return true
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = strings.Trim(address, "[]")
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// parseError turns a parser's error into one with a line, a field and a text for users.
func parseError(path string, text []byte, err error) error {
	wrong := &Error{Path: path, Text: err.Error()}
	var located yaml.Error
	if errors.As(err, &located) {
		wrong.Text = located.GetMessage()
		if token := located.GetToken(); token != nil && token.Position != nil {
			wrong.Line = token.Position.Line
			wrong.Field = keyOn(text, wrong.Line)
		}
	}
	if line, _, more := strings.Cut(wrong.Text, "\n"); more {
		wrong.Text = line
	}
	if strings.Contains(wrong.Text, "cannot unmarshal") ||
		wrong.Field != "" && strings.Contains(wrong.Text, "was used where") {
		wrong.Text = mustBe(wrong.Field) // the parser's text names Go types
	}
	if strings.HasPrefix(wrong.Text, unknownField) {
		wrong.Text = unknownField
	}
	return wrong
}

// mustBe returns what a field must hold.
func mustBe(field string) string {
	switch field {
	case "checkpoint":
		return "it must be a table with " + checkpointFields + ", and its fields must have the right types"
	case "keep":
		return "it must be a whole number"
	case "on":
		return "it must be a list"
	}
	return "it must be text"
}

// keyOn returns the key on a line, for error messages.
func keyOn(text []byte, line int) string {
	lines := bytes.Split(text, []byte("\n"))
	if line < 1 || line > len(lines) {
		return ""
	}
	key, _, found := bytes.Cut(lines[line-1], []byte(":"))
	key = bytes.TrimSpace(key)
	if !found || len(key) == 0 || len(key) > maxJobName || bytes.ContainsFunc(key, notPrintable) {
		return ""
	}
	return string(key)
}

// lineOf returns the line of a key, or 0.
func lineOf(text []byte, key string) int {
	for i, line := range bytes.Split(text, []byte("\n")) {
		if bytes.HasPrefix(bytes.TrimLeft(line, " {\"'"), []byte(key)) {
			return i + 1
		}
	}
	return 0
}

func notPrintable(r rune) bool { return words.Hidden(r) || r == 0xfffd }
