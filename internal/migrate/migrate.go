package migrate

// What does it take before a version can be removed from a CRD? Each object that was ever stored in it has to be
// written again, and then the version can be taken out of status.storedVersions. Migrate does this for one CRD: it
// checks the rights and that no field gets lost, notes in the CRD since when it rewrites, rewrites, and trims. For
// example, after v1 became the storage version, storedVersions is [v1beta1, v1] before, and [v1] after.

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"sluice.dev/internal/brief"
	"sluice.dev/internal/cluster"
)

// Manager is the field manager of the writes.
const Manager = "sluice-migrate"

// Options say how to migrate.
type Options struct {
	// DryRun sends every write of an object as a dry run, and leaves the CRD alone.
	DryRun bool
	// AllowLoss rewrites objects also if the schema of the storage version lacks fields that they have.
	AllowLoss bool
	// Rate bounds the writes in a second; 0 leaves it to the API server, which answers 429 if there are too many.
	Rate float64
	// Progress, if not nil, is called now and then with the number of objects that are done, and that of all, -1 if the server does not
	// say. Calls are sequential.
	Progress func(done, total int64)
}

const (
	// writers is the number of writes under way at once.
	writers = 16
	// pageSize is the number of objects that are read at once. Only their metadata is read.
	pageSize = 500
	// maxRefused bounds the refused objects that are named.
	maxRefused = 1000
)

// The outcomes of a migration.
const (
	// Migrated: objects were rewritten, or status.storedVersions was trimmed.
	Migrated = "migrated"
	// Current: there was nothing to do.
	Current = "current"
	// Refused: the server refuses objects, so status.storedVersions stays.
	Refused = "refused"
	// Lossy: objects have fields that the storage version lacks, so nothing was written.
	Lossy = "lossy"
	// Tried: a dry run found that nothing is refused.
	Tried = "tried"
)

// Result says what became of one CRD.
type Result struct {
	CRD     string `json:"crd"`
	Outcome string `json:"outcome"`
	// StorageVersion is the one that the objects are rewritten in.
	StorageVersion string `json:"storageVersion"`
	// StoredVersions are those of the status before.
	StoredVersions []string `json:"storedVersions"`
	// Trimmed are the versions that were taken out of status.storedVersions, or would be.
	Trimmed []string `json:"trimmed"`
	// Objects counts all of them, Written those that were written (in a dry run: would be written), Earlier those that had been written
	// since an interrupted migration began, and Gone those that were deleted meanwhile.
	Objects int64 `json:"objects"`
	Written int64 `json:"written"`
	Earlier int64 `json:"earlier"`
	Gone    int64 `json:"gone"`
	// Owners counts the objects whose managedFields named versions that may be removed.
	Owners int64 `json:"owners"`
	// Refused counts the objects that the server refuses; Refusals names the first 1000 of them.
	Refused  int64     `json:"refused"`
	Refusals []Refusal `json:"refusals,omitempty"`
	// ByServer is set if the API server's own StorageVersionMigration did the work.
	ByServer bool `json:"byServer"`
	// Notes say what a user should know.
	Notes []string `json:"notes,omitempty"`
}

// Refusal names an object that cannot be rewritten, as namespace/name, and gives the reason.
type Refusal struct {
	Object string `json:"object"`
	Reason string `json:"reason"`
}

// Migrator migrates CRDs of one cluster.
type Migrator struct {
	reads *cluster.Cluster
	rest  *rest.RESTClient
	o     Options
	// unanswered is how long the API server's own migrator may leave a request unanswered.
	unanswered time.Duration
}

// New returns a migrator. It copies the configuration and does not contact the cluster.
func New(config *rest.Config, o Options) (*Migrator, error) {
	reads, err := cluster.For(config)
	if err != nil {
		return nil, err
	}
	client, err := cluster.Client(config, func(c *rest.Config) {
		c.DisableCompression, c.WarningHandlerWithContext = true, rest.NoWarnings{} // each object would have the same warning
		if o.Rate > 0 {
			c.QPS, c.Burst = float32(o.Rate), writers
		}
	})
	if err != nil {
		return nil, err
	}
	return &Migrator{reads: reads, rest: client, o: o, unanswered: 30 * time.Second}, nil
}

// CRDs returns the names of the CRDs that have objects in older versions, by status.storedVersions.
func (m *Migrator) CRDs(ctx context.Context) ([]string, error) {
	crds, err := m.reads.CRDs(ctx)
	var out []string
	for _, crd := range crds {
		if len(crd.Status.StoredVersions) > 1 {
			out = append(out, crd.Name)
		}
	}
	return out, err
}

// LosesVersion reports whether the cluster has a CRD with a version that next does not have. It is false if next does not have the storage version
// either: no migration helps then.
func (m *Migrator) LosesVersion(ctx context.Context, next *apiextensionsv1.CustomResourceDefinition) (bool, error) {
	live, err := m.reads.CRD(ctx, next.Name)
	if err != nil || live == nil {
		return false, err
	}
	loses := false
	for _, v := range live.Spec.Versions {
		has := slices.ContainsFunc(next.Spec.Versions, func(n apiextensionsv1.CustomResourceDefinitionVersion) bool { return n.Name == v.Name })
		if !has && v.Storage {
			return false, nil
		}
		loses = loses || !has
	}
	return loses, nil
}

// ErrChanged means that the CRD was changed during the migration. Nothing was trimmed; another run migrates again.
var ErrChanged = errors.New("the CRD was changed during the migration, so no version was taken out of status.storedVersions; run it again")

// Migrate migrates the objects of a CRD. An error means that it could not be finished; another call continues.
// Objects that the server refuses are no error. The result says how far it came, also with an error.
func (m *Migrator) Migrate(ctx context.Context, name string) (Result, error) {
	r, err := m.newRun(ctx, name)
	if err != nil {
		return Result{CRD: name, Outcome: "failed"}, err
	}
	if err := r.migrateObjects(ctx); err != nil {
		r.Outcome = "failed"
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return r.Result, err
	}
	return r.Result, nil
}

// run is the migration of one CRD.
type run struct {
	*Migrator
	Result

	crd *apiextensionsv1.CustomResourceDefinition
	// since is the resource version that all objects have which were not written since the migration began. It is empty in a dry run, and
	// if no object needs to be rewritten for its own sake.
	since string
}

// newRun reads the CRD, and checks what a migration needs.
func (m *Migrator) newRun(ctx context.Context, name string) (*run, error) {
	crd, err := m.reads.CRD(ctx, name)
	if err != nil {
		return nil, err
	}
	if crd == nil {
		return nil, fmt.Errorf("the cluster has no CRD %s; kubectl get crd lists the names, such as widgets.example.com", name)
	}
	r := &run{Migrator: m, crd: crd}
	r.CRD, r.StoredVersions, r.Trimmed = crd.Name, crd.Status.StoredVersions, []string{}
	storage := storageVersion(crd)
	if crd.DeletionTimestamp != nil {
		return nil, fmt.Errorf("the cluster is deleting the CRD %s and its objects", name)
	}
	if storage == nil || !storage.Served {
		return nil, fmt.Errorf("%s does not serve its storage version, so no object can be written in it; set served: true for that version", name)
	}
	r.StorageVersion = storage.Name
	for _, v := range crd.Status.StoredVersions {
		if v != storage.Name {
			r.Trimmed = append(r.Trimmed, v)
		}
	}
	return r, m.requireAccess(ctx, crd, len(r.Trimmed) > 0)
}

// requireAccess says which right is missing, before the first write. Without this, a user who lacks a right would
// find out after thousands of writes.
func (m *Migrator) requireAccess(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition, trims bool) error {
	needs := []authorizationv1.ResourceAttributes{{Verb: "patch", Group: crd.Spec.Group, Resource: crd.Spec.Names.Plural}}
	if trims && !m.o.DryRun {
		needs = append(needs, authorizationv1.ResourceAttributes{Verb: "patch", Group: apiextensionsv1.GroupName, Resource: "customresourcedefinitions", Subresource: "status", Name: crd.Name})
	}
	for _, need := range needs {
		allowed, err := m.reads.May(ctx, need)
		if err != nil {
			return err
		}
		if !allowed {
			resource := strings.TrimSuffix(need.Resource+"/"+need.Subresource, "/")
			return fmt.Errorf("%w: %w", cluster.ErrNoAccess, apierrors.NewForbidden(schema.GroupResource{Group: need.Group, Resource: resource}, need.Name,
				fmt.Errorf("a migration needs the verb patch for %s in the whole cluster", resource)))
		}
	}
	return nil
}

// storageVersion returns the version of a CRD in which objects are stored; nil if there is none, which the API
// server does not accept.
func storageVersion(crd *apiextensionsv1.CustomResourceDefinition) *apiextensionsv1.CustomResourceDefinitionVersion {
	for i := range crd.Spec.Versions {
		if crd.Spec.Versions[i].Storage {
			return &crd.Spec.Versions[i]
		}
	}
	return nil
}

// migrateObjects does the work on one CRD, and sets the outcome. Nothing is trimmed if an object was refused, and
// nothing is written if one would lose fields. A dry run sends every write as a dry run, and asks for no migration
// by the API server.
func (r *run) migrateObjects(ctx context.Context) error {
	if !r.o.AllowLoss {
		if lossy, err := r.findLoss(ctx); lossy || err != nil {
			return err
		}
	}
	if len(r.Trimmed) > 0 && !r.o.DryRun {
		if err := r.begin(ctx); err != nil {
			return err
		}
		if err := r.letServerMigrate(ctx); err != nil {
			return err
		}
	}
	if err := r.rewriteObjects(ctx); err != nil {
		return err
	}
	switch {
	case r.Refused > 0:
		r.Outcome = Refused
		if !r.o.DryRun {
			r.Trimmed = []string{}
		}
		return nil
	case len(r.Trimmed) == 0 && r.Written == 0:
		r.Outcome = Current
		return nil
	case r.o.DryRun:
		r.Outcome = Tried
		return nil
	}
	if r.Outcome = Migrated; len(r.Trimmed) == 0 {
		return nil
	}
	return r.trim(ctx)
}

// findLoss looks for objects with fields that the storage version does not have: without a conversion webhook the
// rewriting prunes them. It reads the objects in each older version whose schema is another one. It reports true
// if there are any, and sets the outcome with their names.
func (r *run) findLoss(ctx context.Context) (bool, error) {
	storage := storageVersion(r.crd)
	for _, v := range r.crd.Spec.Versions {
		if cluster.NamesWebhook(r.crd) || !slices.Contains(r.Trimmed, v.Name) || apiequality.Semantic.DeepEqual(v.Schema, storage.Schema) {
			continue
		}
		if !v.Served {
			if mayLose(v.Schema.OpenAPIV3Schema, storage.Schema.OpenAPIV3Schema) {
				return false, fmt.Errorf("objects of %s may be stored in version %s with fields that version %s lacks, and %[2]s is not served, so nobody can read them; set served: true for %[2]s, or give --allow-loss, which drops the fields",
					r.CRD, v.Name, storage.Name)
			}
			continue
		}
		old := r.crd.DeepCopy()
		for i := range old.Spec.Versions {
			old.Spec.Versions[i].Served = old.Spec.Versions[i].Name == v.Name
		}
		s, err := r.reads.Scan(ctx, old, r.crd, cluster.ScanOptions{Keep: maxRefused, Progress: func(checked, remaining int64) { r.tell(checked, remaining) }})
		if err != nil {
			return false, fmt.Errorf("reading the objects of %s in version %s: %w", r.CRD, v.Name, err)
		}
		if s.Dropped == 0 {
			continue
		}
		r.Outcome, r.Objects, r.Refused, r.Trimmed = Lossy, s.Checked, s.Dropped, []string{}
		for _, f := range s.Fates {
			if len(f.Dropped) > 0 {
				r.Refusals = append(r.Refusals, Refusal{f.Name, "version " + storage.Name + " does not have " + strings.Join(f.Dropped, ", ")})
			}
		}
		return true, nil
	}
	return false, nil
}

// mayLose reports whether a value with the fields of old can have one that next does not declare, and that is pruned. It looks at the structure
// alone, as pruning does: a stored object need not be valid under old, which the prover of package contain would assume.
func mayLose(old, next *apiextensionsv1.JSONSchemaProps) bool {
	if old == nil || next == nil {
		return old != nil
	}
	keeps := preservesUnknown(next)
	if !keeps && preservesUnknown(old) {
		return true
	}
	var others *apiextensionsv1.JSONSchemaProps // of the fields without a name of their own
	if next.AdditionalProperties != nil {
		others = next.AdditionalProperties.Schema
	}
	for name, field := range old.Properties {
		if other, has := next.Properties[name]; has && mayLose(&field, &other) || !has && !keeps && mayLose(&field, others) {
			return true
		}
	}
	if old.AdditionalProperties != nil && !keeps && mayLose(old.AdditionalProperties.Schema, others) {
		return true
	}
	return old.Items != nil && next.Items != nil && mayLose(old.Items.Schema, next.Items.Schema)
}

// preservesUnknown reports whether a schema keeps fields that it does not declare.
func preservesUnknown(p *apiextensionsv1.JSONSchemaProps) bool {
	return p.XPreserveUnknownFields != nil && *p.XPreserveUnknownFields
}

// tell reports the progress. remaining is negative if the server does not say how many objects are left.
func (r *run) tell(done, remaining int64) {
	if r.o.Progress == nil {
		return
	}
	if remaining >= 0 {
		remaining += done
	}
	r.o.Progress(done, remaining)
}

// note adds what a user should know to the result.
func (r *run) note(format string, args ...any) {
	r.Notes = append(r.Notes, brief.OneLine(fmt.Sprintf(format, args...)))
}
