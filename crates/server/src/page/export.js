// Export of the conversation that is open.

function download(name, kind, text) {
  const address = URL.createObjectURL(new Blob([text], { type: kind }));
  element("a", [], { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}
$("export-json").onclick = () => download("conversation.json", "application/json", JSON.stringify(current, null, 2));
$("export-md").onclick = () => {
  const parts = current.messages.map(({ role, content, reasoning }) => {
    const thought = reasoning ? `> ${reasoning.replaceAll("\n", "\n> ")}\n\n` : "";
    return `## ${role === "user" ? "You" : "Deltafin"}\n\n${thought}${content}\n`;
  });
  download("conversation.md", "text/markdown", `# ${current.title}\n\n${parts.join("\n")}`);
};
