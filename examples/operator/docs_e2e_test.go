//go:build e2e

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"sluice.dev/api/v1alpha1"
)

// TestE2ETheProgramOfTheDocumentation runs it, ends it as a kubelet does, and looks for what it leaves.
func TestE2ETheProgramOfTheDocumentation(t *testing.T) {
	program, crd := gizmo(t)
	s := newScene(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "crd.yaml"), crd, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.put.Apply(t.Context(), filepath.Join(dir, "crd.yaml"), false); err != nil {
		t.Fatal(err)
	}
	if err := s.client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "gizmo-system"}}); err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "gizmo-system", Name: "gizmo-0"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "example.test/gizmo"}}}}
	eventually(t, "the pod", func() error { return s.client.Create(t.Context(), pod) })
	config := s.cluster.Config()
	file := filepath.Join(dir, "kubeconfig")
	if err := clientcmd.WriteToFile(clientcmdapi.Config{
		CurrentContext: "c", Contexts: map[string]*clientcmdapi.Context{"c": {Cluster: "c", AuthInfo: "u"}},
		Clusters: map[string]*clientcmdapi.Cluster{"c": {Server: config.Host, CertificateAuthorityData: config.CAData, CertificateAuthority: config.CAFile}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{"u": {
			Token: config.BearerToken, ClientCertificateData: config.CertData, ClientKeyData: config.KeyData, ClientCertificate: config.CertFile, ClientKey: config.KeyFile,
		}},
	}, file); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	cmd := exec.CommandContext(t.Context(), program)
	cmd.Env = []string{"KUBECONFIG=" + file, "POD_NAME=gizmo-0", "POD_NAMESPACE=gizmo-system", "POD_UID=" + string(pod.UID)}
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	reports := func(want int) []v1alpha1.FeatureReport {
		t.Helper()
		var list v1alpha1.FeatureReportList
		eventually(t, fmt.Sprintf("%d reports", want), func() error {
			err := s.client.List(t.Context(), &list, client.InNamespace("gizmo-system"))
			if err == nil && len(list.Items) != want {
				err = fmt.Errorf("there are %d", len(list.Items))
			}
			return err
		})
		return list.Items
	}
	if owners := reports(1)[0].OwnerReferences; len(owners) != 1 || owners[0].UID != pod.UID {
		t.Errorf("the report is owned by %v", owners)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("it does not end in order: %v: %s", err, &log)
	}
	reports(0)
}
