package bundle

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"sluice.dev/internal/limit"
	"sluice.dev/resolve"
)

// An artifact is an image whose layers hold many resources: a Tekton bundle as a whole, a tar of YAML files as flux push artifact
// makes it, or a Helm chart, of which the CRDs are read. All of it becomes one stream of YAML documents.

// ArtifactName is the name of the resolver that [NewArtifact] makes.
const ArtifactName = "oci"

// Bounds of artifacts, in addition to limits.
const (
	maxArtifactLayer  = 64 << 20
	maxArtifactLayers = 100
	maxArtifactFiles  = 10_000
)

// fluxLayer is the layer type of Flux's artifacts (fluxcd/pkg/oci).
const fluxLayer = "application/vnd.cncf.flux.content.v1.tar+gzip"

// Layer types of Helm's charts (helm.sh/helm/v3/pkg/registry). The templates of a chart are no YAML, so its CRDs alone are read.
const (
	chartLayer      = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
	provenanceLayer = "application/vnd.cncf.helm.chart.provenance.v1.prov"
)

// chartCRDs are the files that Helm installs as they are: those of the chart, and of the charts in it.
var chartCRDs = regexp.MustCompile(`^/[^/]+/(charts/[^/]+/)*crds/`)

// NewArtifact returns a resolver of whole OCI artifacts: the resources of a Tekton bundle, or the YAML and JSON files of an image
// whose layers are tars, as Flux and others push them. The data is a stream of YAML documents: layers in the order of the manifest,
// files in the order of their paths. It is for a command line, where the user has chosen the artifact: its bounds are wider than a
// request can hold. Requests use the parameter [ParamAll] of [New]'s resolver.
func NewArtifact(o Options) *Resolver {
	r := New(o)
	r.artifact = true
	r.limits = limits{Compressed: maxArtifactLayer, Content: maxArtifactLayer, Layers: maxArtifactLayers}
	return r
}

// artifactSpec is the specification of the resolver of whole artifacts.
func artifactSpec(s resolve.Spec) resolve.Spec {
	s.Name, s.Aliases, s.Doc = ArtifactName, nil, "Fetches all resources of an OCI artifact."
	s.Params = slices.DeleteFunc(s.Params, func(p resolve.Param) bool {
		return p.Name == ParamName || p.Name == ParamKind || p.Name == ParamAll
	})
	s.Validate = nil
	return s
}

// resolveWhole returns all resources of an image.
func (r *Resolver) resolveWhole(ctx context.Context, req *resolve.Request, im *image) (*resolve.Resource, error) {
	signers, err := r.imageSigners(ctx, im, req.Get(ParamSigner) != "")
	if err != nil {
		return nil, err
	}
	data, err := im.readAll(ctx, req.Limit())
	if err != nil {
		return nil, err
	}
	annotations := map[string]string{resolve.AnnotationContentType: resolve.ContentTypeYAML, "digest": im.digest.String()}
	if im.isChart() {
		annotations[resolve.AnnotationWarning] = "of a Helm chart only the files below crds/ are read; helm template renders the others"
	}
	return &resolve.Resource{
		Data:        data,
		Annotations: annotations,
		Source:      resolve.Source{URI: im.repo.Name(), Digest: map[string]string{im.digest.Algorithm: im.digest.Hex}},
		Signers:     signers,
		Immutable:   im.pinned,
		Anonymous:   im.anonymous,
	}, nil
}

// readAll reads every resource of the image, maxSize bytes at most.
func (im *image) readAll(ctx context.Context, maxSize int64) ([]byte, error) {
	if n := len(im.manifest.Layers); n > im.limits.Layers {
		return nil, tooLargef("it has %d layers; at most %d are allowed", n, im.limits.Layers)
	}
	out := &stream{max: maxSize, what: "a layer"}
	if im.isChart() {
		out.only = chartCRDs
	}
	for i, l := range im.manifest.Layers {
		if l.MediaType == provenanceLayer {
			continue
		}
		if !artifactLayer(l) {
			return nil, failf("layer %d is of the type %s, which is not supported", i, cleanText(string(l.MediaType)))
		}
		blob, err := im.fetchBlob(ctx, l, im.limits.Compressed)
		if err != nil {
			return nil, err
		}
		if err := out.addLayer(blob); err != nil {
			return nil, err
		}
	}
	switch {
	case out.buf.Len() == 0 && im.isChart():
		return nil, resolve.Errorf(resolve.ReasonNotFound, "it is a Helm chart without a file below crds/; helm template renders its templates")
	case out.buf.Len() == 0:
		return nil, resolve.Errorf(resolve.ReasonNotFound, "it has no .yaml, .yml or .json file")
	}
	return out.buf.Bytes(), nil
}

// isChart reports whether the image is a Helm chart.
func (im *image) isChart() bool {
	return slices.ContainsFunc(im.manifest.Layers, func(l v1.Descriptor) bool { return l.MediaType == chartLayer })
}

func artifactLayer(l v1.Descriptor) bool {
	return knownLayer(l.MediaType) || l.MediaType == types.MediaType(fluxLayer) ||
		!l.MediaType.IsLayer() && (strings.HasSuffix(string(l.MediaType), ".tar+gzip") || strings.HasSuffix(string(l.MediaType), ".tar"))
}

// Folder returns the YAML and JSON files below a folder of a tar, which gzip may have compressed, as a stream of YAML documents in the order
// of the paths. maxSize bounds the stream in bytes; the tar can have twice as many.
func Folder(archive []byte, folder string, maxSize int64) ([]byte, error) {
	s := &stream{max: maxSize, what: "the archive", folder: strings.TrimSuffix(path.Clean("/"+folder), "/") + "/"}
	if err := s.addLayer(archive); err != nil {
		return nil, err
	}
	if s.buf.Len() == 0 {
		return nil, resolve.Errorf(resolve.ReasonNotFound, "the archive has no .yaml, .yml or .json file below %s", cleanText(s.folder))
	}
	return s.buf.Bytes(), nil
}

// stream joins documents.
type stream struct {
	buf   bytes.Buffer
	max   int64
	files int
	// what is joined, for messages.
	what string
	// only are the paths of the files of a tar that count, which begin with a slash; nil for all.
	only *regexp.Regexp
	// folder, with a slash at its end, is the one whose files count; empty for any file of a layer.
	folder string
}

// addDocument adds a text that may hold several documents. It separates it from the text before, and leaves out one that is blank.
func (s *stream) addDocument(data []byte) error {
	if int64(s.buf.Len()+len(data)) > s.max {
		return tooLargef("its content has more than the %d bytes that are allowed", s.max)
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return nil
	}
	if s.buf.Len() > 0 && !bytes.HasPrefix(data, []byte("---")) {
		s.buf.WriteString("---\n")
	}
	s.buf.Write(data)
	if data[len(data)-1] != '\n' {
		s.buf.WriteByte('\n')
	}
	return nil
}

// addLayer adds the resources of a layer: gzip or not, a tar or one text.
func (s *stream) addLayer(blob []byte) error {
	plain, err := inflateLayer(blob, s.what, 2*s.max+tarExtra, s.max)
	switch {
	case err != nil:
		return err
	case !isTar(plain) && s.folder != "":
		return failf("%s is no tar", s.what)
	case !isTar(plain):
		return s.addDocument(plain)
	}
	files, bare, err := s.untarFiles(plain)
	if err != nil {
		return err
	}
	names := slices.Sorted(maps.Keys(files))
	if len(names) == 0 && len(bare) == 1 {
		return s.addDocument(bare[0]) // a Tekton bundle names its file after the resource
	}
	for _, n := range names {
		if err := s.addDocument(files[n]); err != nil {
			return err
		}
	}
	return nil
}

// countsFile reports whether a file of a tar counts, by its path.
func (s *stream) countsFile(p string) bool {
	return strings.HasPrefix(p, s.folder) && (s.only == nil || s.only.MatchString(p))
}

// untarFiles reads the YAML and JSON files of a tar by their paths, and files without an extension.
func (s *stream) untarFiles(b []byte) (files map[string][]byte, bare [][]byte, err error) {
	files = map[string][]byte{}
	tr := tar.NewReader(bytes.NewReader(b))
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return files, bare, nil
		}
		if err != nil {
			return nil, nil, failf("%s is broken: it is no tar that can be read", s.what)
		}
		if s.files++; s.files > maxArtifactFiles {
			return nil, nil, tooLargef("it has more than %d files", maxArtifactFiles)
		}
		p := path.Clean("/" + h.Name)
		if !s.countsFile(p) {
			continue
		}
		hidden := strings.Contains(p, "/.")
		var wanted bool
		switch path.Ext(p) {
		case ".yaml", ".yml", ".json":
			wanted = !hidden
		}
		switch h.Typeflag {
		case tar.TypeReg:
		case tar.TypeSymlink, tar.TypeLink:
			if wanted {
				return nil, nil, failf("%s is a link, which is not followed", cleanText(p))
			}
			continue
		default:
			continue
		}
		if !wanted && (s.folder != "" || path.Ext(p) != "" || hidden || len(bare) > 1) {
			continue
		}
		data, err := limit.ReadAll(tr, s.max)
		if errors.Is(err, limit.ErrTooLarge) {
			return nil, nil, tooLargef("%s has more than the %d bytes that are allowed", cleanText(p), s.max)
		}
		if err != nil || int64(len(data)) != h.Size {
			return nil, nil, failf("%s is broken: its tar ends early", s.what)
		}
		if wanted {
			files[p] = data
		} else {
			bare = append(bare, data)
		}
	}
}
