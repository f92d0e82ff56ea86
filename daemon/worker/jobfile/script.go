package jobfile

import (
	"path"
	"regexp"
	"strings"
)

// interpreter matches the names under which Python is started.
var interpreter = regexp.MustCompile(`^(python|pypy)[0-9.]*t?$`)

// ScriptName returns what an interpreter runs, by its command line: the name of the script without
// its ending, or of the module after -m. It returns "" for other programs, for a program text (-c),
// and for names that a status table must not show.
func ScriptName(arguments []string) string {
	if len(arguments) == 0 || !interpreter.MatchString(path.Base(arguments[0])) {
		return ""
	}
	name := pythonRuns(arguments[1:])
	if len(name) > maxJobName || strings.ContainsFunc(name, notPrintable) {
		return ""
	}
	return name
}

// pythonRuns returns the script or module that Python's arguments name. Options of one letter may
// be joined, and some take the rest of their word or the next one as a value.
func pythonRuns(arguments []string) string {
	for i := 0; i < len(arguments); i++ {
		word := arguments[i]
		switch {
		case word == "-" || word == "":
			return "" // the program text is standard input
		case word == "--check-hash-based-pycs":
			i++
			continue
		case strings.HasPrefix(word, "--"):
			continue
		case word[0] != '-':
			return scriptName(word)
		}
		at := strings.IndexAny(word, "cmWX")
		if at < 0 {
			continue
		}
		value := word[at+1:]
		if value == "" {
			if i++; i == len(arguments) {
				return ""
			}
			value = arguments[i]
		}
		switch word[at] {
		case 'm':
			return value
		case 'c':
			return ""
		}
	}
	return ""
}

// scriptName returns the name of a script. A package that is run by its directory has the name of
// the directory.
func scriptName(script string) string {
	if path.Base(script) == "__main__.py" {
		script = path.Dir(path.Clean("./" + script))
	}
	name := strings.TrimSuffix(path.Base(script), ".py")
	if name == "." || name == "/" || name == ".." {
		return ""
	}
	return name
}
