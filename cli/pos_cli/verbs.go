package main

// verbs are all that this version can do, in the order of the help text.
func verbs() []*verb {
	return []*verb{&startVerb, &statusVerb, &stopVerb, &envVerb, &versionVerb, &helpVerb, &completionVerb, &manVerb}
}

// laterVerbs are known by name, so that asking for one gets a clear answer.
var laterVerbs = map[string]string{
	"pre-dump": "copy a program's state while it runs",
	"dump":     "checkpoint a program",
	"restore":  "bring a checkpointed program back",
	"migrate":  "move a program to another GPU or machine",
	"clean":    "remove what failed checkpoints left",
	"inspect":  "show an image",
	"verify":   "check an image",
	"diff":     "compare images",
	"prune":    "remove old generations of an image",
}
