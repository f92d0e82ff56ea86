package main

// verbs are all that this version can do, in the order of the help text.
func verbs() []*verb {
	return []*verb{
		&startVerb, &statusVerb, &stopVerb, &envVerb, &preDumpVerb, &dumpVerb, &restoreVerb, &preRestoreVerb, &cleanVerb, &traceVerb,
		&imageVerb, &imageListVerb, &imageShowVerb, &imageCheckVerb, &imageVerifyVerb, &imageDiffVerb, &imagePruneVerb, &imageKeyVerb,
		&versionVerb, &helpVerb, &completionVerb, &manVerb,
	}
}

// laterVerbs are known by name, so that asking for one gets a clear answer.
var laterVerbs = map[string]string{
	"migrate": "move a program to another GPU or machine; comes with the cluster",
}
