// Package training shows a training with phos.pipeline: phos pipeline. It asks the cluster about a
// launch, or the training itself about one without a cluster. Tested by tests/pipeline and
// tests/cluster. Read verb.go.
package training
