package config

import (
	"fmt"
	"strings"
)

// resolverManifest is what differs between the manifests of resolvers.
type resolverManifest struct {
	name string
	// memory is the limit of the container.
	memory string
	// args, mounts and volumes are further lines of the Deployment.
	args, mounts, volumes string
}

// resolverTable has a row for each resolver of package internal/resolvers, which a test holds.
var resolverTable = []resolverManifest{
	{name: "git", memory: "512Mi", args: "            - --cache-dir=/var/cache/sluice/git\n"},
	{name: "bundles", memory: "512Mi"},
	{name: "cluster", memory: "256Mi"},
	{name: "http", memory: "256Mi"},
	{name: "hub", memory: "256Mi"},
	{
		name: "dir", memory: "256Mi", args: "            - --dir=/srv/sluice\n",
		mounts: "            - {name: files, mountPath: /srv/sluice, readOnly: true}\n",
		volumes: "        # What requests may read: put your own volume here, a hostPath or a ConfigMap for example.\n" +
			"        - {name: files, emptyDir: {sizeLimit: 5Gi}}\n",
	},
}

func (r resolverManifest) role() string { return "resolver-" + r.name }

// account is the user that a resolver is.
func (r resolverManifest) account() string {
	return "system:serviceaccount:" + ownNamespace + ":sluice-" + r.role()
}

// text fills the template of all resolvers.
func (r resolverManifest) text(template string, o Options) (string, error) {
	text := strings.NewReplacer("resolver-RESOLVER", r.role(), "resolver-schema-RESOLVER", "resolver-schema-"+r.name, "memory: MEMORY", "memory: "+r.memory).Replace(template)
	args, mounts, volumes := o.contentArgs()
	for _, x := range [][2]string{{endOfArgs, r.args + args}, {endOfMounts, r.mounts + mounts}, {endOfVolumes, r.volumes + volumes}} {
		var err error
		if text, err = insert(text, x[0], x[1]); err != nil {
			return "", err
		}
	}
	return text, nil
}

// contentArgs tell a resolver which addresses are open by default, and what to do with content that is too large for a request.
func (o Options) contentArgs() (args, mounts, volumes string) {
	if o.WideAddresses {
		args += "            - --wide-addresses\n"
	}
	if o.Compress {
		args += "            - --compress\n"
	}
	if o.Store != "" {
		args += "            - --store=" + o.Store + "\n"
	}
	if o.StorePlainHTTP {
		args += "            - --store-plain-http\n"
	}
	if o.StoreCredentials != "" {
		args += "            - --store-credentials=/var/run/sluice-store/.dockerconfigjson\n"
		mounts = "            - {name: store, mountPath: /var/run/sluice-store, readOnly: true}\n"
		volumes = "        - {name: store, secret: {secretName: " + o.StoreCredentials + "}}\n"
	}
	return args, mounts, volumes
}

// insert puts lines behind a line of a text that stands there once.
func insert(text, line, lines string) (string, error) {
	if strings.Count(text, line) != 1 {
		return "", fmt.Errorf("the manifest does not have the line %q once", strings.TrimSpace(line))
	}
	return strings.Replace(text, line, line+lines, 1), nil
}

// withResolvers names the resolvers in the policies: whose status each may write, and which are Sluice's.
func withResolvers(policies string) (string, error) {
	var writers strings.Builder
	var names []string
	for _, r := range resolverTable {
		fmt.Fprintf(&writers, "          '%s': ['%s'],\n", r.account(), r.name)
		names = append(names, "'"+r.name+"'")
	}
	policies = strings.Replace(policies, "[RESOLVERS]", "["+strings.Join(names, ", ")+"]", 1)
	return insert(policies, lifecycleWriter, writers.String())
}
